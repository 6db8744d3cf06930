use super::*;

#[test]
fn reads_every_function() {
    for (text, name, column) in [
        ("count", "count", None),
        ("count()", "count", None),
        ("count(*)", "count", None),
        ("COUNT", "count", None),
        ("count(x)", "count(x)", Some("x")),
        ("sum(usd) as usd", "usd", Some("usd")),
        ("sum( usd )as cost", "cost", Some("usd")),
        ("Sum(usd) AS \"total cost\"", "total cost", Some("usd")),
        ("min(x)", "min(x)", Some("x")),
        ("max(x)", "max(x)", Some("x")),
        ("mean(x)", "mean(x)", Some("x")),
        ("var(x)", "var(x)", Some("x")),
        ("var_pop(x)", "var_pop(x)", Some("x")),
        ("stddev(x)", "stddev(x)", Some("x")),
        ("stddev_pop(x)", "stddev_pop(x)", Some("x")),
        ("first(x)", "first(x)", Some("x")),
        ("last(x)", "last(x)", Some("x")),
        ("max_by(x,y)", "max_by(x,y)", Some("x")),
        ("MIN_BY( x , y ) as best", "best", Some("x")),
        ("quantile(x,0.99)", "quantile(x,0.99)", Some("x")),
        ("quantile(x, 0.5) as median", "median", Some("x")),
        ("p99(x)", "p99(x)", Some("x")),
        ("p99.9(x) as tail", "tail", Some("x")),
        ("reservoir_quantile(x,0.9)", "reservoir_quantile(x,0.9)", Some("x")),
        ("reservoir_quantile(x,0.9,128)", "reservoir_quantile(x,0.9)", Some("x")),
        ("approx_distinct(user)", "approx_distinct(user)", Some("user")),
        ("sum(a.b-c d)", "sum(a.b-c d)", Some("a.b-c d")),
        ("sum(größe)", "sum(größe)", Some("größe")),
        ("sum(\"odd, (name)\") as x", "x", Some("odd, (name)")),
        ("sum(\" \"\"q\"\" \")", "sum( \"q\" )", Some(" \"q\" ")),
    ] {
        let parsed = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((parsed.aggregate.name(), parsed.aggregate.column()), (name, column), "{text}");
    }
}

#[test]
fn reads_the_second_column() {
    for (text, name, columns) in [
        ("max_by(auction,price)", "max_by(auction,price)", ("auction", "price")),
        ("min_by( auction , price ) as least", "least", ("auction", "price")),
        ("max_by(\"a,b\", \"p \"\"(usd)\"\" \")", "max_by(a,b,p \"(usd)\" )", ("a,b", "p \"(usd)\" ")),
        ("max_by(größe.x,a-b c)", "max_by(größe.x,a-b c)", ("größe.x", "a-b c")),
        // A number is a name like any other.
        ("max_by(x,1)", "max_by(x,1)", ("x", "1")),
    ] {
        let Parsed { aggregate, numeric } = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((aggregate.name(), numeric), (name, false), "{text}");
        assert_eq!((aggregate.column(), aggregate.by()), (Some(columns.0), Some(columns.1)), "{text}");
    }
    assert_eq!(parse("max(x)").map(|parsed| parsed.aggregate.by().map(str::to_string)), Ok(None));
}

#[test]
fn refuses_with_the_reason() {
    for (text, error) in [
        ("sum", "\"sum\": sum needs a column, as in sum(x)"),
        ("sum()", "\"sum()\": sum needs a column, as in sum(x)"),
        ("sum(x", "\"sum(x\": a parenthesis is never closed"),
        ("sum(\"x)", "\"sum(\\\"x)\": a quote is never closed"),
        ("sum(\"x\" y)", "\"sum(\\\"x\\\" y)\": a parenthesis is never closed"),
        ("sum(,1)", "\"sum(,1)\": the column is empty"),
        ("sum(x,1)", "\"sum(x,1)\": sum takes one column, not also \"1\""),
        ("max_by", "\"max_by\": max_by takes two columns, as in max_by(x,y): the x where y is largest"),
        ("max_by(x)", "\"max_by(x)\": max_by takes two columns, as in max_by(x,y): the x where y is largest"),
        (
            "min_by(x,y,z)",
            "\"min_by(x,y,z)\": min_by takes two columns, as in min_by(x,y): the x where y is smallest",
        ),
        ("max_by(x,)", "\"max_by(x,)\": the second column is empty"),
        ("max_by(x,y", "\"max_by(x,y\": a parenthesis is never closed"),
        ("sum(x) y", "\"sum(x) y\": expected \"as NAME\" after the function, not \"y\""),
        ("sum(x) into y", "\"sum(x) into y\": expected \"as NAME\" after the function, not \"into y\""),
        ("sum(x) as", "\"sum(x) as\": expected \"as NAME\" after the function, not \"as\""),
        ("sum(x) as \"y\" z", "\"sum(x) as \\\"y\\\" z\": \"z\" follows the name"),
        (
            "quantile(x)",
            "\"quantile(x)\": quantile takes a column and a number from 0 to 1, as in quantile(x,0.99)",
        ),
        ("quantile(x,99)", "\"quantile(x,99)\": \"99\" is not a number from 0 to 1"),
        ("quantile(x,NaN)", "\"quantile(x,NaN)\": \"NaN\" is not a number from 0 to 1"),
        (
            "reservoir_quantile(x,0.5,0)",
            "\"reservoir_quantile(x,0.5,0)\": capacity \"0\" is not a whole number from 1 to 16777216",
        ),
    ] {
        assert_eq!(parse(text).map(|_| ()), Err(error.to_string()), "{text}");
    }
    for text in ["median(x)", "p(x)", "p101(x)", "p9x(x)", "p99999(x)"] {
        let error = parse(text).map(|_| ()).unwrap_err();
        let function = text.trim_end_matches("(x)");
        assert_eq!(error, format!("{text:?}: no function {function:?}; allowed: {FUNCTIONS}"));
    }
    assert_eq!(parse("").map(|_| ()), Err(format!("\"\" names no function; allowed: {FUNCTIONS}")));
}

#[test]
fn percentiles_are_exact_decimals() {
    assert_eq!(percentile("p99"), Some(0.99));
    assert_eq!(percentile("p99.9"), Some(0.999));
    assert_eq!(percentile("p5"), Some(0.05));
    assert_eq!(percentile("p100"), Some(1.0));
    assert_eq!(percentile("p0"), Some(0.0));
    assert_eq!(percentile("p101"), None);
}
