//! Mount options of the program itself: a line of fstab has no other place for them.

use std::path::PathBuf;

use super::MountArgs;
use crate::common::net;
use crate::output::Failure;
use crate::values::seconds;

impl MountArgs {
    /// Takes `log=`, `timeout=`, `net=` and `config=` out of the mount options: they are the
    /// options of the command with these names. A later one overrides an earlier one, but for
    /// networks, which may be several.
    pub(super) fn take_program_options(&mut self) -> Result<(), Failure> {
        for list in core::mem::take(&mut self.options) {
            let mut rest = Vec::new();
            for option in list.split(',') {
                if !self.take(option.trim())? {
                    rest.push(option);
                }
            }
            self.options.push(rest.join(","));
        }
        Ok(())
    }

    /// Whether the option is one of them.
    fn take(&mut self, option: &str) -> Result<bool, Failure> {
        let Some((name, value)) = option.split_once('=') else { return Ok(false) };
        let refused = |why: String| Failure::Usage(format!("mount option {option}: {why}"));
        if matches!(name, "log" | "config" | "net") && value.is_empty() {
            return Err(refused("it needs a value".to_owned()));
        }
        match name {
            "log" => self.log = Some(PathBuf::from(value)),
            "config" => self.node.config = Some(PathBuf::from(value)),
            "timeout" => self.timeout = seconds(value).map_err(refused)?,
            "net" => self.node.net.push(net(value).map_err(refused)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: MountArgs,
    }

    fn taken(options: &[&str]) -> Result<MountArgs, Failure> {
        let options = options.iter().flat_map(|list| ["-o", list]);
        let line = ["mount", "10.0.0.9@tcp:/lustre", "/mnt"].into_iter().chain(options);
        let mut args = Line::try_parse_from(line).expect("a line").args;
        args.take_program_options().map(|()| args)
    }

    #[test]
    fn options_of_the_program_are_taken_from_a_line_of_fstab() {
        let args = taken(&["ro,log=/a, timeout=2m,net=tcp1=eth0", "net=tcp2,log=/b,sync"]);
        let args = args.expect("all are known");
        assert_eq!(args.options, ["ro", "sync"]);
        assert_eq!((args.log, args.timeout), (Some(PathBuf::from("/b")), 120.0));
        let nets: Vec<String> = args.node.net.iter().map(|net| net.net.to_string()).collect();
        assert_eq!(nets, ["tcp1", "tcp2"]);
    }

    #[test]
    fn a_bad_value_is_refused_with_its_option() {
        for wrong in ["timeout=0", "net=nothing", "log=", "config="] {
            let Err(Failure::Usage(said)) = taken(&[wrong]) else { panic!("{wrong}") };
            assert!(said.contains(wrong), "{said}");
        }
    }
}
