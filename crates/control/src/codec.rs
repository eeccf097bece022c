//! Lines of text, and the exchange of versions at the beginning of a connection.

use serde::{Deserialize, Serialize};

use crate::about::NodeAbout;
use crate::answer::Answer;
use crate::request::Request;

/// The version of the control API. Version 1 was the one before versions were exchanged; version 3
/// added loads and sessions of the console that belong to their connection; version 4 gave the
/// tags of loads, console commands and their answers plain names.
pub const VERSION: u32 = 4;

/// The release of Lustrine that this is, for messages.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// The longest request, in bytes with its line feed. A console takes lists of 16,384 NIDs, and an
/// import a file of 4 MiB, whose line ends and quotes take two bytes each.
pub const REQUEST_LEN_MAX: usize = (8 << 20) + 4096;

/// The longest answer that a tool reads, in bytes with its line feed: every NID of a full table of
/// peers, with its statistics.
pub const ANSWER_LEN_MAX: usize = 512 << 20;

const EINVAL: i32 = -22;
const EPROTO: i32 = -71;

/// The first line of each side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Hello {
    hello: Version,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Version {
    control: u32,
    #[serde(default)]
    release: String,
    /// What a node says of itself; a tool and a node of version 2 say nothing.
    #[serde(default, skip_serializing_if = "NodeAbout::is_empty")]
    node: NodeAbout,
}

/// The tool's side of the exchange of versions.
#[derive(Clone, Copy, Debug)]
pub struct Greeting;

impl Greeting {
    /// The first line that a tool sends, with its line feed.
    pub fn line() -> String {
        Greeting::line_of(NodeAbout::default())
    }

    /// The first line that this node sends, with its line feed.
    pub(crate) fn line_of(node: NodeAbout) -> String {
        line(&Hello { hello: Version { control: VERSION, release: RELEASE.to_owned(), node } })
    }

    /// Checks the node's first line, and returns what the node says of itself in it.
    ///
    /// # Errors
    /// When the node speaks another version; the connection is of no use then.
    pub fn check(reply: &str) -> Result<NodeAbout, VersionError> {
        if let Ok(Hello { hello }) = serde_json::from_str(reply) {
            return match hello.control == VERSION {
                true => Ok(hello.node),
                false => Err(VersionError::Differs {
                    node: hello.control,
                    release: printable(&hello.release),
                }),
            };
        }
        match serde_json::from_str(reply) {
            // A node of version 1 does not know the greeting.
            Ok(Answer::Error { .. }) => Err(VersionError::NodeHasNone),
            _ => Err(VersionError::NotANode),
        }
    }
}

/// Why a tool and a node do not understand each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// The node speaks another version.
    #[error(
        "the node speaks control version {node}, this tool version {VERSION}, so {}",
        advice(*node, release)
    )]
    Differs {
        /// The node's version.
        node: u32,
        /// The node's release.
        release: String,
    },
    /// The node is older than the exchange of versions.
    #[error(
        "the node does not state its control version, so it is older than this tool, which speaks \
         version {VERSION}: use the `lustrine` that the node was started with, or restart the node"
    )]
    NodeHasNone,
    /// The other side is not a node.
    #[error("the program that listens there is not a Lustrine node")]
    NotANode,
}

/// Which side is older, and what to do.
fn advice(node: u32, release: &str) -> String {
    match node < VERSION {
        true => format!(
            "the node is older: restart it with this release ({RELEASE}), or use the `lustrine` \
             that it was started with (release {release})"
        ),
        false => format!(
            "this tool is older: use the `lustrine` that the node was started with (release \
             {release})"
        ),
    }
}

/// Why an answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AnswerError(String);

/// The node's side of one connection.
#[derive(Clone, Debug, Default)]
pub struct Session {
    greeted: bool,
    about: NodeAbout,
}

/// What a node does with a line.
#[derive(Clone, Debug, PartialEq)]
pub enum LineResponse {
    /// Carry out a request, and send its answer.
    Call(Box<Request>),
    /// Send this line.
    Reply(String),
    /// Send this line and close the connection.
    Close(String),
}

impl Session {
    /// The side of a node that says this of itself.
    pub fn of(about: NodeAbout) -> Session {
        Session { greeted: false, about }
    }

    /// Takes a line that the tool sent.
    pub fn on_line(&mut self, text: &str) -> LineResponse {
        if self.greeted {
            return match serde_json::from_str(text) {
                Ok(request) => LineResponse::Call(Box::new(request)),
                Err(error) => {
                    LineResponse::Reply(refusal(EINVAL, format!("invalid request: {error}")))
                }
            };
        }
        match serde_json::from_str(text) {
            Ok(Hello { hello }) if hello.control == VERSION => {
                self.greeted = true;
                LineResponse::Reply(Greeting::line_of(self.about.clone()))
            }
            // The tool finds out from our version that they differ, and says so.
            Ok(Hello { .. }) => LineResponse::Close(Greeting::line_of(self.about.clone())),
            Err(_) => LineResponse::Close(refusal(
                EPROTO,
                format!(
                    "the node speaks control version {VERSION}, and this tool does not state its \
                     version: use the `lustrine` that the node was started with (release {RELEASE})"
                ),
            )),
        }
    }
}

impl Request {
    /// The request as a line, with its line feed.
    pub fn to_line(&self) -> String {
        line(self)
    }
}

impl Answer {
    /// The answer as a line, with its line feed.
    pub fn to_line(&self) -> String {
        line(self)
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// When the line is not an answer.
    pub fn from_line(text: &str) -> Result<Answer, AnswerError> {
        serde_json::from_str(text).map_err(|error| AnswerError(error.to_string()))
    }
}

fn refusal(errno: i32, message: String) -> String {
    Answer::Error { errno, message, hint: String::new() }.to_line()
}

fn line<T: Serialize>(value: &T) -> String {
    let mut text = serde_json::to_string(value).expect("keys are strings and numbers are finite");
    text.push('\n');
    text
}

/// A release as another program reports it, safe to print.
fn printable(release: &str) -> String {
    release.chars().filter(char::is_ascii_graphic).take(32).collect()
}

#[cfg(test)]
mod tests;
