//! `ping` and `discover` [TOOL-15].

use lustrine_control::PeerIdentity;
use lustrine_wire::nid::Nid;

use super::Lnetctl;
use crate::errno::{self, EINVAL, EOPNOTSUPP};
use crate::nids;
use crate::node::{Env, ToolError};
use crate::parse::Parsed;
use crate::shell::{Compat, Exit};
use crate::yaml::{self, Dialect, Map, Yaml, entry};

impl<O: Env> Lnetctl<'_, O> {
    pub(super) fn ping(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        if parsed.has("source") {
            let said = "--source is not supported in this release: the node chooses the interface";
            return Err(self.fail("manage", "ping", -(EOPNOTSUPP as i32), said.to_owned()));
        }
        let seconds = parsed.count("timeout");
        self.each("ping", parsed.positionals(), |env, nid| env.ping(nid, seconds))
    }

    /// `--force` has no effect: discovery always queries the node.
    pub(super) fn discover(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        self.each("discover", parsed.positionals(), |env, nid| env.discover(nid))
    }

    /// Queries one NID after the other. Answers are printed as they arrive and failures after all
    /// answers, so that the output is one document.
    fn each(
        &mut self,
        what: &str,
        words: &[String],
        ask: impl Fn(&mut O, Nid) -> Result<PeerIdentity, ToolError>,
    ) -> Result<(), Exit> {
        let nids = match nids::list(words, |host| self.env.resolve(host)) {
            Ok(nids) => nids,
            Err(why) => {
                let said = format!("Unable to parse nidlist: {why}");
                return Err(self.fail("manage", what, -(EINVAL as i32), said));
            }
        };
        // Without a running node there is one error, not one for each NID.
        if let Err(trouble) = self.env.nis() {
            return Err(self.fail_with("manage", what, trouble));
        }
        let mut failed: Vec<Map> = Vec::new();
        let mut begun = false;
        for nid in nids {
            match ask(self.env, nid) {
                Ok(identity) => {
                    let title = if begun { String::new() } else { format!("{what}:\n") };
                    begun = true;
                    let (item, dialect) = (self.identity(&identity), self.answers());
                    let item = yaml::write_items(&[item], dialect);
                    self.env.out(&format!("{title}{item}"));
                }
                Err(trouble) => failed.push(self.failed(what, nid, &trouble)),
            }
        }
        match (failed.is_empty(), self.settings.compat) {
            (true, _) => return Ok(()),
            (false, Compat::V2_15) => {
                let text = yaml::write(&vec![entry("manage", failed)], Dialect::A);
                self.env.err(&text);
            }
            (false, Compat::V2_16) => self.print(&vec![entry("manage", failed)], Dialect::C),
        }
        Err(Exit::FAILURE)
    }

    fn answers(&self) -> Dialect {
        match self.settings.compat {
            Compat::V2_15 => Dialect::A,
            Compat::V2_16 => Dialect::C,
        }
    }

    fn identity(&self, identity: &PeerIdentity) -> Map {
        let nis = match self.settings.compat {
            Compat::V2_15 => "peer ni",
            Compat::V2_16 => "peer_ni",
        };
        let nids = identity.peer_ni.iter().filter(|ni| !ni.nid.is_lo());
        let nids: Vec<Map> = nids.map(|ni| vec![entry("nid", ni.nid)]).collect();
        vec![
            entry("primary nid", identity.primary_nid),
            entry("Multi-Rail", identity.multi_rail),
            entry(nis, nids),
        ]
    }

    fn failed(&self, what: &str, nid: Nid, trouble: &ToolError) -> Map {
        let known = match trouble.text.as_str() {
            "" => String::new(),
            text => format!(" ({text})"),
        };
        let said = format!("failed to {what} {nid}: {}{known}", errno::text(trouble.errno));
        let why = vec![entry("errno", trouble.errno), entry("descr", Yaml::Said(said))];
        match self.settings.compat {
            Compat::V2_15 => vec![entry(what, why)],
            Compat::V2_16 => {
                let mut item = vec![entry(what, Yaml::Empty)];
                item.extend(why);
                item
            }
        }
    }
}
