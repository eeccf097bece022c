//! `lustrine pcap`: what Lustre nodes say to each other in a packet capture.

mod describe;
mod file;
mod print;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use lustrine_capture::{Dissector, Event, Frame};

use self::file::{FileError, Frames};
use self::print::{Form, Printer};
use crate::common::fail;

/// Read a packet capture (libpcap or pcapng) and print Lustre's network messages.
///
/// Each line tells the seconds since the first frame, the number of the TCP connection, the
/// direction (-> from the side that opened it), the kind of message, from whom to whom, and its
/// fields. Connections that existed before the capture began are read too.
#[derive(Args, Debug)]
pub(crate) struct PcapArgs {
    /// The capture
    file: PathBuf,

    /// Print one JSON object per line
    #[arg(long)]
    json: bool,

    /// Only this TCP connection
    #[arg(long, value_name = "N")]
    stream: Option<u32>,

    /// Print the bytes as well
    #[arg(long)]
    raw: bool,
}

/// Runs the command.
pub(crate) fn run(args: &PcapArgs) -> ExitCode {
    let out = BufWriter::new(io::stdout().lock());
    match print_file(args, out) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads the output has read enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Failure::Output(error)) => fail(&format!("cannot write: {error}")),
        Err(Failure::Input(error)) => fail(&format!("{}: {error}", args.file.display())),
    }
}

/// What can go wrong.
#[derive(Debug)]
enum Failure {
    Input(FileError),
    Output(io::Error),
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        Failure::Input(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

/// Prints a whole capture. What was decoded before a malformed part of the file is printed.
fn print_file(args: &PcapArgs, out: impl Write) -> Result<(), Failure> {
    let form = if args.json { Form::Json } else { Form::Text };
    let mut printer = Printer::new(out, form, args.raw);
    let mut dissector = Dissector::default();
    let wanted = |event: &Event| args.stream.is_none_or(|stream| stream == event.stream);
    let mut input = || -> Result<u64, Failure> {
        let file = File::open(&args.file).map_err(FileError::Open)?;
        let mut frames = Frames::open(file)?;
        while let Some(found) = frames.next_frame()? {
            printer.start(found.time_ns);
            dissector.frame(&Frame {
                time_ns: found.time_ns,
                link: found.link,
                bytes: found.bytes,
            });
            while let Some(event) = dissector.poll_event() {
                if wanted(&event) {
                    printer.event(&event)?;
                }
            }
        }
        Ok(frames.foreign_links())
    };
    let outcome = input();
    if let Err(Failure::Output(error)) = outcome {
        return Err(Failure::Output(error));
    }
    dissector.finish();
    while let Some(event) = dissector.poll_event() {
        if wanted(&event) {
            printer.event(&event)?;
        }
    }
    let printed = printer.finish()?;
    let foreign_links = outcome?;
    if foreign_links > 0 {
        eprintln!(
            "lustrine: {foreign_links} frames of kinds of network that cannot be read were \
             passed over"
        );
    }
    if printed == 0 {
        let stats = dissector.stats();
        eprintln!(
            "lustrine: no LNet conversation among {} frames ({} TCP connections); look for port \
             988 when capturing, with `tcpdump -w FILE tcp port 988`",
            stats.frames, stats.streams
        );
    }
    Ok(())
}
