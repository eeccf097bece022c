//! A laboratory: machines with `lst`, each with the real console as a state machine, and nodes that
//! answer its requests as kernel nodes do, as far as sessions of `lst` show it.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

pub mod fake_env;
pub mod node;
pub mod typed;

use core::net::Ipv4Addr;
use core::time::Duration;
use std::collections::BTreeMap;

use lustrine_lnet::time::{Nanos, Time};
use lustrine_selftest::RpcError;
use lustrine_selftest::console::{Answer, Command, Console, ConsoleRpc, RpcOutcome};
use lustrine_tools::lst::{ConsoleError, Env, Lst, Settings, WaitOutcome};
use lustrine_tools::shell::{Exit, NameMatching, Terminal, run};
use lustrine_wire::nid::Nid;

use node::Node;

/// All machines, and the time.
pub struct World {
    pub nodes: BTreeMap<Nid, Node>,
    consoles: BTreeMap<u32, Console>,
    pub now: Time,
    tickets: u64,
    /// Waits from this one on are interrupted; `None`: no wait is.
    pub patience: Option<u32>,
}

/// A machine of the laboratory with a user.
pub struct Seat<'a> {
    pub world: &'a mut World,
    /// Its number.
    pub machine: u32,
    /// The output: lines, and whether each is on standard error.
    pub lines: Vec<(String, bool)>,
    /// The number of requests to the console.
    pub requests: u32,
}

/// The NID of a machine.
pub fn nid(machine: u32) -> Nid {
    format!("10.77.0.{machine}@tcp").parse().unwrap()
}

impl World {
    /// Machines 2, 3 and 4.
    pub fn new() -> World {
        World {
            nodes: (2..=4).map(|machine| (nid(machine), Node::default())).collect(),
            consoles: (2..=4).map(|machine| (machine, Console::new(&nid(machine), 0))).collect(),
            now: Time::ZERO + Nanos::from_secs(1),
            tickets: 0,
            patience: None,
        }
    }

    /// A user at a machine.
    pub fn sit_down(&mut self, machine: u32) -> Seat<'_> {
        Seat { world: self, machine, lines: Vec::new(), requests: 0 }
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Nanos) {
        let mut left = time.0 / 1_000_000_000;
        while left > 0 {
            left -= 1;
            self.now = self.now + Nanos::from_secs(1);
            self.nodes.values_mut().for_each(|node| node.second(self.now));
            for machine in 2..=4 {
                self.consoles.get_mut(&machine).unwrap().tick(self.now);
                self.carry_out(machine);
            }
        }
    }

    fn ask(&mut self, machine: u32, key: u32, command: Command) -> Result<Answer, ConsoleError> {
        let console = self.consoles.get_mut(&machine).unwrap();
        if command == Command::ShowSession {
            let view = console.session().ok_or(ConsoleError::NoConsole)?;
            return Ok(Answer::Session(view));
        }
        self.tickets += 1;
        let ticket = self.tickets;
        console.command(self.now, ticket, key, command);
        self.carry_out(machine);
        // The end of a session waits until its tests have ended.
        for _ in 0..100 {
            if let Some((answered, answer)) = self.consoles.get_mut(&machine).unwrap().next_answer()
            {
                assert_eq!(answered, ticket);
                return answer.map_err(ConsoleError::Refused);
            }
            self.pass(Nanos::from_secs(1));
        }
        panic!("no answer within 100 s");
    }

    /// Processes all requests of a console, and their consequences. Nodes that do not answer take
    /// the whole time-out.
    fn carry_out(&mut self, machine: u32) {
        while let Some(order) = self.consoles.get_mut(&machine).unwrap().next_rpc() {
            let ConsoleRpc { id, peer, body, timeout, .. } = &order;
            let answer = self.nodes.get_mut(peer).and_then(|node| node.answer(self.now, body));
            let reply = match answer {
                Some(message) => Ok(message),
                None => {
                    self.now = self.now + *timeout;
                    Err(RpcError::TimedOut)
                }
            };
            let outcome = RpcOutcome { rpc: *id, reply, put: Vec::new() };
            self.consoles.get_mut(&machine).unwrap().completed(self.now, &outcome);
        }
    }
}

impl Seat<'_> {
    /// Runs a command of `lst`; the words do not include its name.
    pub fn lst(&mut self, settings: &Settings, words: &[&str]) -> Exit {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        run(&mut Lst::new(self, settings), &words, NameMatching::Exact)
    }

    /// All that is on the screen, and nothing any more.
    pub fn text(&mut self) -> String {
        self.lines.drain(..).map(|(line, _)| line + "\n").collect()
    }

    pub fn write(&mut self, text: &str, trouble: bool) {
        assert!(text.is_empty() || text.ends_with('\n'), "{text:?} is no whole line");
        self.lines.extend(text.lines().map(|line| (line.to_owned(), trouble)));
    }
}

impl Terminal for Seat<'_> {
    fn out(&mut self, text: &str) {
        self.write(text, false);
    }

    fn err(&mut self, text: &str) {
        self.write(text, true);
    }
}

impl Env for Seat<'_> {
    fn ask(&mut self, key: u32, command: Command) -> Result<Answer, ConsoleError> {
        self.requests += 1;
        self.world.ask(self.machine, key, command)
    }

    fn sleep(&mut self, time: Duration) -> WaitOutcome {
        if let Some(patience) = &mut self.world.patience {
            if *patience == 0 {
                return WaitOutcome::Interrupted;
            }
            *patience -= 1;
        }
        self.world.pass(Nanos::from_secs(time.as_secs()));
        WaitOutcome::Elapsed
    }

    fn resolve(&mut self, host: &str) -> Result<Ipv4Addr, String> {
        let machine = host.strip_prefix("vm").and_then(|number| number.parse().ok());
        match machine {
            Some(number) => Ok(Ipv4Addr::new(10, 77, 0, number)),
            None => Err("no such host".to_owned()),
        }
    }
}
