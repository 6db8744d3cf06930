//! What the documents say the commands print is what they print.
#![expect(clippy::unwrap_used, reason = "a test that panics has found something")]

use std::path::Path;
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// `(arguments, expected output)` of every shell block that runs `window`, with the text block after it.
fn examples(document: &str) -> Vec<(Vec<String>, String)> {
    let text = std::fs::read_to_string(Path::new(ROOT).join(document)).unwrap();
    let mut found = vec![];
    let mut rest = text.as_str();
    while let Some(start) = rest.find("```sh\n") {
        let block = &rest[start + 6..];
        let end = block.find("```").unwrap();
        let command = block[..end].replace("\\\n", " ").replace("cargo run --release --", "highwater");
        rest = &block[end + 3..];
        if !command.starts_with("highwater") || !command.contains(" window ") {
            continue;
        }
        let expected = &rest[rest.find("```text\n").unwrap() + 8..];
        let expected = expected[..expected.find("```").unwrap()].to_string();
        found.push((arguments(&command), expected));
    }
    found
}

/// Words as a shell splits them, single quotes included, without the program's name.
fn arguments(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for letter in command.trim().chars() {
        match letter {
            '\'' => quoted = !quoted,
            letter if letter.is_whitespace() && !quoted => words.push(String::new()),
            letter => words[..].last_mut().unwrap().push(letter),
        }
    }
    words.into_iter().filter(|word| !word.is_empty()).skip(1).collect()
}

#[test]
fn commands_print_what_the_documents_show() {
    let mut checked = 0;
    for document in ["README.md", "examples/data/README.md"] {
        for (arguments, expected) in examples(document) {
            let output = Command::new(env!("CARGO_BIN_EXE_highwater"))
                .args(&arguments)
                .current_dir(ROOT)
                .output()
                .unwrap();
            let printed = String::from_utf8(output.stdout).unwrap();
            // editors strip spaces at the end of lines
            let lines = |text: &str| {
                text.trim_end().lines().map(|line| line.trim_end().to_string()).collect::<Vec<_>>()
            };
            assert_eq!(lines(&printed), lines(&expected), "{document}: {arguments:?}");
            checked += 1;
        }
    }
    assert_eq!(checked, 6, "examples in the documents");
}
