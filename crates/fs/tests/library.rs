//! The programs of `cargo xtask bench library` at a tiny size: a client and the model servers in
//! two processes, over the loopback.
//!
//! There is no test harness: the program starts itself as the process of the servers.

#[allow(dead_code, reason = "its `main` is that of the example")]
#[path = "../examples/library/main.rs"]
mod library;

use std::process::ExitCode;
use std::time::Instant;

/// The command lines, and the results that each has. The first one measures by how much this
/// process grows: it has no memory yet that others have left.
const RUNS: [(&str, &[&str]); 7] = [
    ("memory --files 20000 --slots 64", &["kept-inode", "kept-object"]),
    ("read --size 65536 --mib 1 --slots 4 --seconds 0.05", &["read"]),
    ("random-read --size 4096 --mib 1 --slots 16 --seconds 0.05", &["random-read"]),
    ("write --size 65536 --mib 1 --slots 4 --seconds 0.05", &["write"]),
    (
        "names --files 200 --slots 16",
        &["create", "lookup", "stat", "unlink", "mknod", "unlink-empty"],
    ),
    (
        "kept --files 20 --batch 50",
        &["kept-getattr", "kept-lookup", "kept-stat", "kept-read", "kept-lookup-blocking"],
    ),
    ("open --files 200 --slots 16", &["open-file", "close"]),
];

/// Most bytes of memory for a file that is kept: its inode and its object, each with its lock.
const KEPT_MAX: f64 = 1024.0;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // Tools that list tests call every test program with this option.
    if words.iter().any(|word| word == "--list") {
        println!("library: test\n\n1 test, 0 benchmarks");
        return ExitCode::SUCCESS;
    }
    if matches!(words.first().map(String::as_str), Some("serve" | "make")) {
        return match library::run(&words) {
            Ok(_) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    println!("\nrunning {} tests", RUNS.len());
    let mut failed = 0;
    for (line, expected) in RUNS {
        let begin = Instant::now();
        let outcome = match check(line, expected) {
            Ok(()) => "ok".to_owned(),
            Err(error) => {
                failed += 1;
                format!("FAILED: {error}")
            }
        };
        println!("test {line} ... {outcome} ({:.1} s)", begin.elapsed().as_secs_f64());
    }
    let (word, passed) = (if failed == 0 { "ok" } else { "FAILED" }, RUNS.len() - failed);
    println!("\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored\n");
    ExitCode::from(u8::from(failed > 0))
}

fn check(line: &str, expected: &[&str]) -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let result = library::run(&words)?.ok_or("there is no result")?;
    let rows = result["results"].as_array().ok_or("there are no rows")?;
    let names: Vec<&str> = rows.iter().filter_map(|row| row["test"].as_str()).collect();
    if names != expected {
        return Err(format!("the results are {names:?}").into());
    }
    let kept = rows.iter().filter(|row| row["test"].as_str().is_some_and(is_kept_memory));
    let bytes: Option<f64> = kept.map(|row| row["bytes_each"].as_f64()).sum();
    let bytes = bytes.ok_or("a row has no bytes of each file")?;
    match bytes <= KEPT_MAX {
        true => Ok(()),
        false => Err(format!("a file that is kept takes {bytes:.0} bytes").into()),
    }
}

fn is_kept_memory(test: &str) -> bool {
    matches!(test, "kept-inode" | "kept-object")
}
