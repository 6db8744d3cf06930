//! The language of `--agg`: `sum(usd) as usd`, `count`, `quantile(x,0.99)`, `p99(x)`, `max_by(auction,price)`.
//!
//! ```text
//! aggregate := call [ "as" name ]
//! call      := function [ "(" [ column { "," ( number | column ) } ] ")" ]
//! column    := name | '"' any text, a quote doubled '"'
//! ```
//! An unquoted column runs to the first comma or closing parenthesis and may hold anything else, so that `a.b` and
//! `größe` need no quotes. Function names and `as` are read without regard to case.

use highwater::Aggregate;

/// The sample that `reservoir_quantile` keeps unless told otherwise.
const RESERVOIR_CAPACITY: usize = 4096;

/// The functions as they are shown in messages and help.
pub const FUNCTIONS: &str = "count, count(x), sum(x), min(x), max(x), mean(x), stddev(x), var(x), stddev_pop(x), \
                             var_pop(x), first(x), last(x), max_by(x,y), min_by(x,y), quantile(x,0.99), p99(x), \
                             reservoir_quantile(x,0.99[,capacity]), approx_distinct(x)";

/// One parsed `--agg`, and what the input columns must be for it.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The aggregate for the operator.
    pub aggregate: Aggregate,
    /// Whether the function takes only numbers from its column.
    pub numeric: bool,
}

/// Reads one aggregate.
///
/// ```
/// let cost = highwater_cli::aggregates::parse("sum(usd) as cost").unwrap();
/// assert_eq!((cost.aggregate.name(), cost.aggregate.column()), ("cost", Some("usd")));
/// ```
pub fn parse(text: &str) -> Result<Parsed, String> {
    let mut rest = Rest { text: text.trim() };
    let name = rest.word();
    if name.is_empty() {
        return Err(format!("{text:?} names no function; allowed: {FUNCTIONS}"));
    }
    let arguments = if rest.eat('(') { rest.arguments(text)? } else { Arguments::default() };
    let parsed = build(name, arguments, text)?;
    match rest.alias(text)? {
        Some(alias) => Ok(Parsed { aggregate: parsed.aggregate.alias(alias), ..parsed }),
        None => Ok(parsed),
    }
}

/// What stands between the parentheses.
#[derive(Default)]
struct Arguments {
    column: Option<String>,
    /// Numbers, or a second column.
    others: Vec<String>,
}

impl Arguments {
    /// The column of a function that takes just that.
    fn only_column(mut self, name: &str, text: &str) -> Result<String, String> {
        self.others
            .first()
            .map_or(Ok(()), |extra| Err(format!("{text:?}: {name} takes one column, not also {extra:?}")))?;
        self.take_column(name, text)
    }

    fn take_column(&mut self, name: &str, text: &str) -> Result<String, String> {
        self.column.take().ok_or_else(|| format!("{text:?}: {name} needs a column, as in {name}(x)"))
    }
}

fn build(name: &str, mut arguments: Arguments, text: &str) -> Result<Parsed, String> {
    let lower = name.to_ascii_lowercase();
    let any = |aggregate| Ok(Parsed { aggregate, numeric: false });
    let numeric = |aggregate| Ok(Parsed { aggregate, numeric: true });
    match lower.as_str() {
        "count"
            if arguments.others.is_empty()
                && arguments.column.as_deref().is_none_or(|column| column == "*") =>
        {
            any(Aggregate::count_all())
        }
        "count" => any(Aggregate::count(arguments.only_column(&lower, text)?)),
        "sum" => numeric(Aggregate::sum(arguments.only_column(&lower, text)?)),
        "min" => any(Aggregate::min(arguments.only_column(&lower, text)?)),
        "max" => any(Aggregate::max(arguments.only_column(&lower, text)?)),
        "mean" => numeric(Aggregate::mean(arguments.only_column(&lower, text)?)),
        "var" => numeric(Aggregate::variance(arguments.only_column(&lower, text)?)),
        "var_pop" => numeric(Aggregate::variance_pop(arguments.only_column(&lower, text)?)),
        "stddev" => numeric(Aggregate::stddev(arguments.only_column(&lower, text)?)),
        "stddev_pop" => numeric(Aggregate::stddev_pop(arguments.only_column(&lower, text)?)),
        "first" => any(Aggregate::first(arguments.only_column(&lower, text)?)),
        "last" => any(Aggregate::last(arguments.only_column(&lower, text)?)),
        "max_by" | "min_by" => {
            let extreme = if lower == "max_by" { "largest" } else { "smallest" };
            match (arguments.column, arguments.others.as_slice()) {
                (Some(_), [by]) if by.is_empty() => Err(format!("{text:?}: the second column is empty")),
                (Some(column), [by]) if lower == "max_by" => any(Aggregate::max_by(column, by)),
                (Some(column), [by]) => any(Aggregate::min_by(column, by)),
                _ => Err(format!(
                    "{text:?}: {lower} takes two columns, as in {lower}(x,y): the x where y is {extreme}"
                )),
            }
        }
        "approx_distinct" => any(Aggregate::approx_distinct(arguments.only_column(&lower, text)?)),
        "quantile" => {
            let column = arguments.take_column(&lower, text)?;
            match arguments.others.as_slice() {
                [q] => numeric(Aggregate::quantile(column, fraction(q, text)?)),
                _ => Err(format!(
                    "{text:?}: quantile takes a column and a number from 0 to 1, as in quantile(x,0.99)"
                )),
            }
        }
        "reservoir_quantile" => {
            let column = arguments.take_column(&lower, text)?;
            match arguments.others.as_slice() {
                [q] => numeric(Aggregate::reservoir_quantile(column, fraction(q, text)?, RESERVOIR_CAPACITY)),
                [q, size] => {
                    numeric(Aggregate::reservoir_quantile(column, fraction(q, text)?, capacity(size, text)?))
                }
                _ => Err(format!(
                    "{text:?}: reservoir_quantile takes a column, a number from 0 to 1 and perhaps a capacity, \
                     as in reservoir_quantile(x,0.99,4096)"
                )),
            }
        }
        _ => match percentile(&lower) {
            Some(q) => {
                let column = arguments.only_column(&lower, text)?;
                numeric(Aggregate::quantile(&column, q).alias(format!("{lower}({column})")))
            }
            None => Err(format!("{text:?}: no function {name:?}; allowed: {FUNCTIONS}")),
        },
    }
}

/// `p50`, `p99`, `p99.9`: the percentile as a fraction. Divided as decimals, not floats: p99.9 is 0.999.
fn percentile(name: &str) -> Option<f64> {
    let digits = name.strip_prefix('p')?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty()
        || whole.len() > 3
        || !(whole.bytes().chain(part.bytes())).all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    let fraction: f64 = format!("{whole}{part}e-{}", part.len() + 2).parse().ok()?;
    (fraction <= 1.0).then_some(fraction)
}

fn fraction(given: &str, text: &str) -> Result<f64, String> {
    match given.parse::<f64>() {
        Ok(q) if (0.0..=1.0).contains(&q) => Ok(q),
        _ => Err(format!("{text:?}: {given:?} is not a number from 0 to 1")),
    }
}

fn capacity(given: &str, text: &str) -> Result<usize, String> {
    match given.parse::<usize>() {
        Ok(capacity) if (1..=1 << 24).contains(&capacity) => Ok(capacity),
        _ => Err(format!("{text:?}: capacity {given:?} is not a whole number from 1 to {}", 1 << 24)),
    }
}

/// The text that is still to be read; never starts with white space.
struct Rest<'a> {
    text: &'a str,
}

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.text.split_at(length);
        self.text = rest.trim_start();
        taken.trim_end()
    }

    /// A function's name: letters, digits, `_` and `.` (for `p99.9`).
    fn word(&mut self) -> &'a str {
        let end = self
            .text
            .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
            .unwrap_or(self.text.len());
        self.take(end)
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.text.starts_with(wanted);
        if found {
            self.take(wanted.len_utf8());
        }
        found
    }

    /// A name in double quotes with `""` for a quote; the opening quote has been eaten.
    fn quoted(&mut self, whole: &str) -> Result<String, String> {
        let mut name = String::new();
        loop {
            let end = self.text.find('"').ok_or_else(|| format!("{whole:?}: a quote is never closed"))?;
            name.push_str(&self.text[..end]);
            self.text = &self.text[end + 1..];
            match self.text.strip_prefix('"') {
                Some(rest) => {
                    name.push('"');
                    self.text = rest;
                }
                None => break,
            }
        }
        self.text = self.text.trim_start();
        Ok(name)
    }

    fn arguments(&mut self, whole: &str) -> Result<Arguments, String> {
        let mut arguments = Arguments::default();
        if self.eat(')') {
            return Ok(arguments);
        }
        let column = self.argument(whole)?;
        if column.is_empty() {
            return Err(format!("{whole:?}: the column is empty"));
        }
        arguments.column = Some(column);
        loop {
            if self.eat(')') {
                return Ok(arguments);
            }
            if !self.eat(',') {
                return Err(format!("{whole:?}: a parenthesis is never closed"));
            }
            arguments.others.push(self.argument(whole)?);
        }
    }

    fn argument(&mut self, whole: &str) -> Result<String, String> {
        // Not `eat`: white space after the quote belongs to the name.
        if let Some(rest) = self.text.strip_prefix('"') {
            self.text = rest;
            return self.quoted(whole);
        }
        let end =
            self.text.find([',', ')']).ok_or_else(|| format!("{whole:?}: a parenthesis is never closed"))?;
        Ok(self.take(end).to_string())
    }

    fn alias(&mut self, whole: &str) -> Result<Option<String>, String> {
        if self.text.is_empty() {
            return Ok(None);
        }
        let expected = || format!("{whole:?}: expected \"as NAME\" after the function, not {:?}", self.text);
        let (word, name) = self.text.split_once(char::is_whitespace).ok_or_else(expected)?;
        if !word.eq_ignore_ascii_case("as") {
            return Err(expected());
        }
        self.text = name.trim_start();
        match self.text.strip_prefix('"') {
            Some(rest) => {
                self.text = rest;
                let name = self.quoted(whole)?;
                if !self.text.is_empty() {
                    return Err(format!("{whole:?}: {:?} follows the name", self.text));
                }
                Ok(Some(name))
            }
            None => Ok(Some(self.text.to_string())),
        }
    }
}

#[cfg(test)]
mod tests;
