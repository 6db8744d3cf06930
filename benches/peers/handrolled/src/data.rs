//! The columns of a workload, read from raw little-endian files, and the rows of its result.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

/// What went wrong, for a program that only stops.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Only the columns that the workload needs are filled.
#[derive(Default)]
pub struct Columns {
    pub ts: Vec<i64>,
    pub key32: Vec<i32>,
    pub key64: Vec<i64>,
    pub value: Vec<f64>,
    pub bidder: Vec<i64>,
    pub price: Vec<i64>,
    pub event_type: Vec<i8>,
    pub campaign: Vec<i32>,
}

impl Columns {
    pub fn read(workload: &str, dir: &Path) -> Result<Columns> {
        let longs = |name| column(dir, name, i64::from_le_bytes);
        let ints = |name| column(dir, name, i32::from_le_bytes);
        let value = || column(dir, "value", f64::from_le_bytes);
        let mut columns = Columns { ts: longs("ts")?, ..Columns::default() };
        match workload {
            "w1" | "w4" => (columns.key32, columns.value) = (ints("key")?, value()?),
            "w2" => (columns.key32, columns.value) = (ints("model")?, value()?),
            "w3" | "w5" => (columns.key64, columns.value) = (longs("key")?, value()?),
            "q5" => columns.key64 = longs("auction")?,
            "q7" => {
                (columns.key64, columns.bidder, columns.price) =
                    (longs("auction")?, longs("bidder")?, longs("price")?);
            }
            "ysb" => {
                columns.key32 = ints("ad_id")?;
                columns.event_type = column(dir, "event_type", i8::from_le_bytes)?;
                columns.campaign = ints("campaign_of_ad")?;
            }
            other => return Err(format!("no workload {other}").into()),
        }
        Ok(columns)
    }
}

fn column<T, const WIDTH: usize>(dir: &Path, name: &str, decode: fn([u8; WIDTH]) -> T) -> Result<Vec<T>> {
    let path = dir.join(name).with_extension("bin");
    let mut file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut values = Vec::with_capacity(file.metadata()?.len() as usize / WIDTH);
    let mut block = vec![0; 8192 * WIDTH];
    loop {
        let mut filled = 0;
        while filled < block.len() {
            match file.read(&mut block[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        values.extend(block[..filled].as_chunks().0.iter().map(|bytes| decode(*bytes)));
        if filled < block.len() {
            return Ok(values);
        }
    }
}

/// One result: in q7 `key` is the auction, `count` the bidder and `sum` the price; in w5 `max` is the end of the session.
#[derive(Default)]
pub struct Row {
    pub window: i64,
    pub key: i64,
    pub count: i64,
    pub sum: f64,
    pub min: f64,
    pub max: f64,
    pub p50: f64,
    pub p99: f64,
}

/// Takes results: adds them up, and keeps them if they are needed again.
#[derive(Default)]
pub struct Sink {
    pub keep: bool,
    pub total: f64,
    pub rows: Vec<Row>,
}

impl Sink {
    #[inline]
    pub fn put(&mut self, row: Row) {
        self.total += row.sum + row.max + row.count as f64;
        if self.keep {
            self.rows.push(row);
        }
    }
}

pub fn write_csv(path: &Path, rows: &[Row]) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "win,key,count,sum,min,max,p50,p99")?;
    for Row { window, key, count, sum, min, max, p50, p99 } in rows {
        writeln!(file, "{window},{key},{count},{sum},{min},{max},{p50},{p99}")?;
    }
    Ok(file.flush()?)
}
