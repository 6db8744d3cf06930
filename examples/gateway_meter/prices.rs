//! What tokens cost. Money is counted in millionths of a dollar: a price of $3 for a million tokens is 3 of them for each.

/// A model, what it costs, and how fast it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Model {
    /// Its name.
    pub(crate) name: &'static str,
    /// Millionths of a dollar for a token of the prompt.
    pub(crate) prompt: i64,
    /// Millionths of a dollar for a token of the answer.
    pub(crate) completion: i64,
    /// How long it takes to write a token.
    pub(crate) ms_per_token: i64,
}

/// The models behind the gateway.
pub(crate) const MODELS: [Model; 4] = [
    Model { name: "orion-medium", prompt: 3, completion: 15, ms_per_token: 11 },
    Model { name: "orion-mini", prompt: 1, completion: 4, ms_per_token: 5 },
    Model { name: "lyra-code", prompt: 5, completion: 25, ms_per_token: 14 },
    Model { name: "orion-large", prompt: 15, completion: 75, ms_per_token: 22 },
];

impl Model {
    /// The model of this name, if there is one.
    pub(crate) fn find(name: &str) -> Option<&'static Model> {
        MODELS.iter().find(|model| model.name == name)
    }

    /// What a request costs, in millionths of a dollar.
    pub(crate) fn micro_usd(&self, prompt_tokens: i64, completion_tokens: i64) -> i128 {
        i128::from(self.prompt) * i128::from(prompt_tokens)
            + i128::from(self.completion) * i128::from(completion_tokens)
    }
}

/// Millionths of a dollar as dollars: `$4.31`, with six digits if two do not say it all.
pub(crate) fn usd(micros: i128) -> String {
    let (dollars, rest) = (micros / 1_000_000, micros % 1_000_000);
    let dollars = grouped(dollars);
    if rest % 10_000 == 0 {
        format!("${dollars}.{:02}", rest / 10_000)
    } else {
        format!("${dollars}.{rest:06}")
    }
}

/// A count with commas between thousands.
pub(crate) fn grouped(count: impl ToString) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
