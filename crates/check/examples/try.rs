use highwater_check::*;
use std::panic::{catch_unwind, AssertUnwindSafe};
fn rng(s: &mut u64) -> u64 { *s = s.wrapping_add(0x9E3779B97F4A7C15); let mut z=*s; z=(z^(z>>30)).wrapping_mul(0xBF58476D1CE4E5B9); z=(z^(z>>27)).wrapping_mul(0x94D049BB133111EB); z^(z>>31) }
fn check(which: &str, c: &Case) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| match which {
        "oracle" => against_oracle(c),
        "cut" => { for p in [1,3,50] { same_for_every_cut(c, p) } }
        _ => { for t in [2,5] { same_for_all_threads(c, t) } }
    })).map_err(|e| e.downcast_ref::<String>().cloned().or(e.downcast_ref::<&str>().map(|s| s.to_string())).unwrap_or_default())
}
fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let a: Vec<String> = std::env::args().collect();
    let (which, n) = (a[1].as_str(), a[2].parse::<u64>().unwrap());
    let start = a.get(3).map_or(0, |s| s.parse().unwrap());
    let mut fails = 0;
    for seed in start..start+n {
        let mut s = seed; let len = if rng(&mut s) % 2 == 0 { 40 + rng(&mut s) % 400 } else { 400 + rng(&mut s) % 6000 };
        let bytes: Vec<u8> = (0..len).map(|_| rng(&mut s) as u8).collect();
        let Ok(mut c) = Case::from_bytes(&bytes) else { continue };
        if check(which, &c).is_ok() { continue }
        fails += 1;
        // shrink ops, then rows
        let mut changed = true;
        while changed { changed = false;
            let mut i = 0; while i < c.ops.len() { let mut d = c.clone(); d.ops.remove(i); if check(which, &d).is_err() { c = d; changed = true } else { i += 1 } }
            for i in 0..c.ops.len() { loop { let mut done = true;
                let k = match &c.ops[i] { highwater_oracle::Op::Push(_, r) => r.len(), _ => 0 };
                for j in (0..k).rev() { let mut d = c.clone(); if let highwater_oracle::Op::Push(_, r) = &mut d.ops[i] { if j < r.len() { r.remove(j); } } if check(which, &d).is_err() { c = d; changed = true; done = false } }
                if done { break } } }
            let mut j = 0; while c.spec.aggregates.len() > 1 && j < c.spec.aggregates.len() { let mut d = c.clone(); d.spec.aggregates.remove(j); if check(which,&d).is_err() { c = d; changed = true } else { j += 1 } }
        }
        println!("seed {seed}\n{:?}\n{:?}", c.spec, c.shape); for o in &c.ops { println!("  {o:?}") } println!("=> {}", check(which, &c).unwrap_err());
        if fails >= 3 { break }
    }
    println!("{fails} failures");
}
