//! Commands that change a node: `set`, `net add|del|set`, `peer add|del`, `stats reset`
//! [TOOL-12].

use lustrine_control::{ChangeRequest, NewNet, NiSelector};
use lustrine_wire::nid::{Net, Nid};

use super::{Lnetctl, table};
use crate::errno::{EINVAL, EOPNOTSUPP};
use crate::nids;
use crate::node::Env;
use crate::parse::Parsed;
use crate::shell::Exit;

/// Why health values cannot be set.
const NO_HEALTH: &str = "interfaces and peers have no health values in this release: all of \
                         them are used, as with health_sensitivity 0";

/// Options of `net add` that would have no effect, and why.
const NO_EFFECT: [(&str, &str); 6] = [
    ("ip2net", "write the network with --net and its interface with --if, or its NID with --nid"),
    ("peer-timeout", "it concerns routers only, and routing is not supported"),
    ("peer-buffer-credits", "it concerns routers only, and routing is not supported"),
    ("cpt", "every CPU partition serves every interface"),
    ("auth-key", "it is for kfi networks"),
    ("traffic-class", "it is for kfi networks"),
];

impl<O: Env> Lnetctl<'_, O> {
    pub(super) fn set(&mut self, key: &str, parsed: &Parsed) -> Result<(), Exit> {
        let Ok(value) = parsed.positional(0).parse() else {
            let about = table::SET.iter().find(|syntax| syntax.name == key);
            let said = format!(
                "{key} must be a whole number without a unit, not {:?}: {}",
                parsed.positional(0),
                about.map_or("", |syntax| syntax.about)
            );
            return Err(self.invalid("set", key, &said));
        };
        self.request("set", key, &ChangeRequest::Set { name: key.to_owned(), value })
    }

    pub(super) fn set_net(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        if parsed.has("health") {
            return Err(self.not_supported("set", "net", NO_HEALTH));
        }
        let which = match (parsed.text("nid"), parsed.text("net"), parsed.has("all")) {
            (Some(text), None, false) => NiSelector::Nid(self.nid("set", "net", text)?),
            (None, Some(text), false) => NiSelector::Net(self.net("set", text)?),
            (None, None, true) => NiSelector::All,
            _ => {
                return Err(self.invalid(
                    "set",
                    "net",
                    "one of --nid, --net and --all is required",
                ));
            }
        };
        let number = |name: &str| parsed.text(name).map(|_| parsed.count(name));
        let (conns, timeout) = (number("conns-per-peer"), number("lnd-timeout"));
        if conns.is_none() && timeout.is_none() {
            let said = "--conns-per-peer or --lnd-timeout is required";
            return Err(self.invalid("set", "net", said));
        }
        let conns_per_peer = conns.map(|count| count as u16);
        self.request(
            "set",
            "net",
            &ChangeRequest::SetNet { which, conns_per_peer, lnd_timeout: timeout },
        )
    }

    pub(super) fn add_net(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        for (option, why) in NO_EFFECT {
            if parsed.has(option) {
                let said = format!("--{option} has no effect in this release: {why}");
                return Err(self.not_supported("add", "net", &said));
            }
        }
        let tos = match parsed.text("tos").map(str::parse::<i16>) {
            None => None,
            Some(Ok(tos)) if (-1..=255).contains(&tos) => Some(tos),
            Some(_) => {
                return Err(self.invalid("add", "net", "--tos must be a number from -1 to 255"));
            }
        };
        let number = |name: &str| parsed.text(name).map(|_| parsed.count(name));
        let net = parsed.text("net").map(|text| self.net("add", text)).transpose()?;
        let nid = parsed.text("nid").map(|text| self.nid("add", "net", text)).transpose()?;
        let new = NewNet {
            net,
            interfaces: interfaces(parsed),
            nid,
            peer_credits: number("peer-credits"),
            credits: number("credits"),
            conns_per_peer: number("conns-per-peer").map(|count| count as u16),
            tos,
        };
        self.request("add", "net", &ChangeRequest::AddNet(new))
    }

    pub(super) fn del_net(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let interfaces = interfaces(parsed);
        let which = match (parsed.text("nid"), parsed.text("net")) {
            (Some(text), None) if interfaces.is_empty() => {
                NiSelector::Nid(self.nid("del", "net", text)?)
            }
            (None, Some(text)) => NiSelector::Net(self.net("del", text)?),
            _ => return Err(self.invalid("del", "net", "--net, perhaps with --if, or --nid")),
        };
        self.request("del", "net", &ChangeRequest::DelNet { which, interfaces })
    }

    pub(super) fn add_peer(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let Some(primary) = parsed.text("prim_nid") else {
            return Err(self.invalid("add", "peer", "--prim_nid is required"));
        };
        let primary = self.nid("add", "peer", primary)?;
        let mut nids = vec![primary];
        nids.extend(self.nids("add", parsed)?.into_iter().filter(|nid| *nid != primary));
        let (multi_rail, locked) = (!parsed.has("non_mr"), parsed.has("lock_prim"));
        self.request("add", "peer", &ChangeRequest::AddPeer { nids, multi_rail, locked })
    }

    pub(super) fn del_peer(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let Some(primary) = parsed.text("prim_nid") else {
            return Err(self.invalid("del", "peer", "--prim_nid is required"));
        };
        let primary = self.nid("del", "peer", primary)?;
        let (nids, force) = (self.nids("del", parsed)?, parsed.has("force"));
        self.request("del", "peer", &ChangeRequest::DelPeer { primary, nids, force })
    }

    /// Peers have no settings in this release.
    pub(super) fn set_peer(&mut self) -> Result<(), Exit> {
        Err(self.not_supported("set", "peer", NO_HEALTH))
    }

    pub(super) fn reset_stats(&mut self) -> Result<(), Exit> {
        self.request("reset", "stats", &ChangeRequest::ResetStats {})
    }

    /// Success prints nothing.
    fn request(&mut self, verb: &str, noun: &str, change: &ChangeRequest) -> Result<(), Exit> {
        match self.env.change(change, false) {
            Ok(changed) => {
                self.warn(&changed.warnings);
                Ok(())
            }
            Err(trouble) => Err(self.fail_with(verb, noun, trouble)),
        }
    }

    /// Prints what was left out.
    pub(super) fn warn(&mut self, warnings: &[String]) {
        for warning in warnings {
            self.env.err(&format!("lnetctl: {}\n", warning.replace('\n', " ")));
        }
    }

    fn nid(&mut self, verb: &str, noun: &str, text: &str) -> Result<Nid, Exit> {
        text.parse().map_err(|_| {
            let said = format!("{text:?} is not a valid NID; an example is 10.0.0.1@tcp");
            self.invalid(verb, noun, &said)
        })
    }

    fn net(&mut self, verb: &str, text: &str) -> Result<Net, Exit> {
        text.parse().map_err(|_| {
            let said = format!("{text:?} is not a valid network; an example is tcp1");
            self.invalid(verb, "net", &said)
        })
    }

    fn nids(&mut self, verb: &str, parsed: &Parsed) -> Result<Vec<Nid>, Exit> {
        let Some(text) = parsed.text("nid") else { return Ok(Vec::new()) };
        let words = [text.to_owned()];
        nids::list(&words, |host| self.env.resolve(host))
            .map_err(|why| self.invalid(verb, "peer", &format!("Unable to parse nidlist: {why}")))
    }

    pub(super) fn invalid(&mut self, verb: &str, noun: &str, said: &str) -> Exit {
        self.fail(verb, noun, -(EINVAL as i32), said.to_owned())
    }

    fn not_supported(&mut self, verb: &str, noun: &str, said: &str) -> Exit {
        self.fail(verb, noun, -(EOPNOTSUPP as i32), said.to_owned())
    }
}

/// Names of interfaces, separated by commas.
fn interfaces(parsed: &Parsed) -> Vec<String> {
    let names = parsed.text("if").unwrap_or_default().split(',');
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
