//! `export`: state and settings of a node as one document [TOOL-16].

use lustrine_wire::nid::Nid;

use super::Lnetctl;
use super::show::{global, listed, nets, nodes};
use crate::errno::EIO;
use crate::node::Env;
use crate::parse::Parsed;
use crate::shell::Exit;
use crate::yaml::{self, Dialect, Map, entry};

impl<O: Env> Lnetctl<'_, O> {
    pub(super) fn export(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let text = match parsed.has("backup") {
            // What was discovered about peers is not a setting.
            true => match self.env.backup() {
                Ok(text) => text,
                Err(trouble) => return Err(self.fail_with("show", "export", trouble)),
            },
            false => self.all()?,
        };
        match parsed.positionals().first() {
            None => self.env.out(&text),
            Some(path) => {
                if let Err(why) = self.env.write(path, &text) {
                    let said = format!("cannot write {path}: {why}");
                    return Err(self.fail("manage", "export", -(EIO as i32), said));
                }
            }
        }
        Ok(())
    }

    /// What is shown of interfaces, peers and settings.
    fn all(&mut self) -> Result<String, Exit> {
        let nis = self.nis("export")?;
        let tunables = self.tunables("export")?;
        let mut nodes = nodes(self.peers("export")?);
        // A node that has pinged itself is a peer of its own, which no import takes.
        let is_own = |nid: Nid| nis.nets.iter().any(|ni| ni.nid == nid);
        nodes.retain(|node| !node.nids().any(is_own));
        let mut map: Map = vec![entry("net", listed(nets(&nis, &tunables, 2)))];
        if !nodes.is_empty() {
            map.push(entry("peer", nodes.iter().map(|node| node.shown(2)).collect::<Vec<Map>>()));
        }
        let mut text = yaml::write(&map, self.dialect());
        text += &yaml::write(&vec![entry("global", global(&tunables))], Dialect::A);
        Ok(text)
    }
}
