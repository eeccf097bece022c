//! `lustrine pcap`: prints the messages between Lustre nodes in a packet capture.

mod describe;
mod file;
mod live;
mod payload;
mod print;
mod rpc;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

use clap::Args;
use lustrine_capture::{Dissector, Event, Frame};

use self::file::{FileError, Frames};
use self::live::{Input, SharedOut};
use self::print::{Form, Printer};
use crate::interrupt;
use crate::output::{self, print_error};
use crate::values;

/// What a second signal leaves undone.
const LEFT: &str = "the last lines may be missing";

/// Read a packet capture (libpcap or pcapng) and print Lustre's network messages.
///
/// Each line shows the seconds since the first frame, the number of the TCP connection, the
/// direction (-> from the side that opened it), the kind of message, the sender and the receiver,
/// and the fields. Requests and replies of the file system appear after a vertical bar: the
/// operation, its xid, status, and the most important fields; a reply says how long its request
/// took. Connections that existed before the capture began are read too.
#[derive(Args, Debug)]
pub(crate) struct PcapArgs {
    /// The capture; "-" is standard input
    file: PathBuf,

    /// Print one JSON object per line
    #[arg(long)]
    json: bool,

    /// Only this TCP connection
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = values::whole::<u32>(1..=u32::MAX.into()))]
    stream: Option<u32>,

    /// Print every field of requests and replies that is not 0, one line for each buffer
    #[arg(long)]
    fields: bool,

    /// Print the bytes as well
    #[arg(long)]
    raw: bool,
}

impl PcapArgs {
    fn is_stdin(&self) -> bool {
        self.file.as_os_str() == "-"
    }

    /// The capture, and its name in messages.
    fn name(&self) -> String {
        if self.is_stdin() {
            return "standard input".to_owned();
        }
        self.file.display().to_string()
    }

    fn open(&self) -> Result<File, FileError> {
        let file = match self.is_stdin() {
            true if io::stdin().is_terminal() => return Err(FileError::Terminal),
            // Without the buffer of the library, in which bytes could wait.
            true => io::stdin().as_fd().try_clone_to_owned().map(File::from),
            false => File::open(&self.file),
        };
        let file = file.map_err(FileError::Open)?;
        if file.metadata().is_ok_and(|meta| meta.is_dir()) {
            return Err(FileError::Directory);
        }
        Ok(file)
    }
}

/// Runs the command.
pub(crate) fn run(args: &PcapArgs) -> Result<(), output::Failure> {
    let out = SharedOut::new(BufWriter::new(io::stdout()));
    print_file(args, out).map_err(|failure| match failure {
        Failure::Output(error) => output::write_error(error),
        Failure::Signals(failure) => interrupt::ended(failure),
        Failure::Input(error) => output::Failure::Input(format!("{}: {error}", args.name())),
        Failure::Stream { wanted, streams: 0 } => {
            format!("{}: no TCP connection {wanted}: there is none at all", args.name()).into()
        }
        Failure::Stream { wanted, streams } => format!(
            "{}: no TCP connection {wanted}: they are numbered from 1 to {streams}",
            args.name()
        )
        .into(),
    })
}

/// Why the capture is not printed.
#[derive(Debug)]
enum Failure {
    Input(FileError),
    Output(io::Error),
    /// A signal came, or none can be caught.
    Signals(output::Failure),
    /// The capture has only this number of connections.
    Stream {
        wanted: u32,
        streams: u32,
    },
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

/// Prints a whole capture. What was decoded before a malformed part of the file, or before a signal
/// while a program writes it, is printed.
fn print_file<W: Write + Send + 'static>(
    args: &PcapArgs,
    out: SharedOut<W>,
) -> Result<(), Failure> {
    let form = if args.json { Form::Json } else { Form::Text };
    let mut printer = Printer::new(out.clone(), form).with_raw(args.raw).with_fields(args.fields);
    let mut dissector = Dissector::default();
    let wanted = |event: &Event| args.stream.is_none_or(|stream| stream == event.stream);
    let input = || -> Result<u64, Failure> {
        let file = args.open()?;
        if !file.metadata().is_ok_and(|meta| meta.is_file()) {
            interrupt::clean_up_first(LEFT).map_err(Failure::Signals)?;
        }
        let mut frames = Frames::open(Input::new(file, out))?;
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
    let asked = interrupt::asked().map_err(Failure::Signals);
    let foreign_links = match &asked {
        Ok(()) => outcome?,
        // The capture ends where the signal came.
        Err(_) => outcome.unwrap_or(0),
    };
    if foreign_links > 0 {
        print_error(&format!("{foreign_links} frames of unsupported link types were skipped"));
    }
    if printed == 0 {
        let stats = dissector.stats();
        match args.stream {
            Some(wanted) if wanted > stats.streams => {
                return Err(Failure::Stream { wanted, streams: stats.streams });
            }
            Some(wanted) => {
                print_error(&format!("TCP connection {wanted} is not an LNet connection"))
            }
            None => print_error(&format!(
                "no LNet connection among {} frames ({} TCP connections); look for port 988 when \
                 capturing, with `tcpdump -w FILE tcp port 988`",
                stats.frames, stats.streams
            )),
        }
    }
    asked
}
