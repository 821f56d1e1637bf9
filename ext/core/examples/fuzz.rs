//! Many inputs for one decoder, on one thread: `bin/fuzz` runs it.
//!
//! ```text
//! fuzz json|msgpack|avro|schema [--seed N] [--from N] [--inputs N] [--seconds N]
//! ```
//!
//! Ends with 1 where a decoder panics, takes too much memory, or has another value than its reference, and prints the
//! input and the command that repeats it.

#[path = "../tests/fuzz/mod.rs"]
mod fuzz;
#[path = "../tests/random/mod.rs"]
mod random;

use fuzz::Fuzz;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Inputs between two looks at the clock.
const ROUND: u64 = 10_000;

struct Options {
    decoder: String,
    seed: u64,
    from: u64,
    inputs: u64,
    seconds: u64,
}

fn options() -> Result<Options, String> {
    let mut arguments = std::env::args().skip(1);
    let decoder = arguments.next().ok_or("which decoder?")?;
    let mut options = Options { decoder, seed: 1, from: 0, inputs: 1_000_000, seconds: u64::MAX };
    while let Some(name) = arguments.next() {
        let number = arguments.next().and_then(|text| text.replace('_', "").parse().ok());
        let number = number.ok_or_else(|| format!("{name}: no number"))?;
        match name.as_str() {
            "--seed" => options.seed = number,
            "--from" => options.from = number,
            "--inputs" => options.inputs = number,
            "--seconds" => options.seconds = number,
            _ => return Err(format!("no option {name}")),
        }
    }
    Ok(options)
}

fn decoder(name: &str) -> Result<Box<dyn Fuzz>, String> {
    Ok(match name {
        "json" => Box::new(fuzz::json::Json::default()),
        "msgpack" => Box::new(fuzz::msgpack::MessagePack::default()),
        "avro" => Box::new(fuzz::avro::Avro::default()),
        "schema" => Box::new(fuzz::schema::Schemas::default()),
        other => return Err(format!("no decoder {other}: json, msgpack, avro, schema")),
    })
}

fn run(options: &Options) -> Result<bool, String> {
    let mut decoder = decoder(&options.decoder)?;
    let Options { decoder: name, seed, from, .. } = options;
    let (began, limit) = (Instant::now(), Duration::from_secs(options.seconds));
    let (mut done, mut accepted) = (0, 0);
    let mut input = Vec::new();
    while done < options.inputs && began.elapsed() < limit {
        for _ in 0..ROUND.min(options.inputs - done) {
            input.clear();
            let index = from + done;
            let checked = catch_unwind(AssertUnwindSafe(|| {
                decoder.make(*seed, index, &mut input);
                decoder.check(&input)
            }));
            let Ok(fine) = checked else {
                println!("{name}: input {index} of seed {seed}: {:?}", String::from_utf8_lossy(&input));
                println!("  in hexadecimal: {}", input.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
                println!("  again: bin/fuzz {name} --seed {seed} --from {index} --inputs 1");
                return Ok(false);
            };
            accepted += u64::from(fine);
            done += 1;
        }
    }
    println!(
        "{name}: {done} inputs, {accepted} of them accepted, 0 problems, seed {seed}, {:.1} s",
        began.elapsed().as_secs_f64()
    );
    Ok(true)
}

fn main() {
    match options().and_then(|options| run(&options)) {
        Ok(true) => {}
        Ok(false) => std::process::exit(1),
        Err(why) => {
            eprintln!("fuzz: {why}");
            std::process::exit(2);
        }
    }
}
