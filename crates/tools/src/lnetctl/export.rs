//! `export`: what there is as one document (cli-habits 3.6).

use std::collections::BTreeMap;

use lustrine_wire::nid::Net;

use super::Lnetctl;
use super::show::{add, global, interfaces, listed, nets, nodes, tuned};
use crate::errno::EIO;
use crate::node::{Ni, Nis, Outside};
use crate::parse::Parsed;
use crate::shell::Exit;
use crate::yaml::{self, Dialect, Map, entry};

/// The port that a configuration need not name.
const PORT: u16 = 988;

impl<O: Outside> Lnetctl<'_, O> {
    pub(super) fn export(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let nis = self.nis("export")?;
        let tunables = self.tunables("export")?;
        let nodes = nodes(self.peers("export")?);
        let backup = parsed.has("backup");
        let nets = match backup {
            true => configured(&nis, &tunables),
            false => nets(&nis, &tunables, 2),
        };
        let mut map: Map = vec![entry("net", listed(nets))];
        // What was learned of peers is no setting.
        if !backup && !nodes.is_empty() {
            map.push(entry("peer", nodes.iter().map(|node| node.shown(2)).collect::<Vec<Map>>()));
        }
        let mut text = yaml::write(&map, self.dialect());
        text += &yaml::write(&vec![entry("global", global(&tunables))], Dialect::A);
        match parsed.words().first() {
            None => self.outside.out(&text),
            Some(path) => {
                if let Err(why) = self.outside.write(path, &text) {
                    let said = format!("cannot write {path}: {why}");
                    return Err(self.fail("manage", "export", -(EIO as i32), said));
                }
            }
        }
        Ok(())
    }
}

/// Interfaces as `lustrine node --config` reads them. One without a name has its address.
fn configured(nis: &Nis, tunables: &BTreeMap<String, i64>) -> Vec<(Net, Vec<Map>)> {
    let mut nets = Vec::new();
    for ni in &nis.nis {
        let mut shown = vec![place(ni)];
        shown.extend((ni.port != PORT).then(|| entry("port", ni.port)));
        shown.extend(tuned(ni, tunables, &["tos"]));
        add(&mut nets, ni.nid.net(), shown);
    }
    nets
}

fn place(ni: &Ni) -> (String, yaml::Yaml) {
    interfaces(ni).unwrap_or_else(|| entry("nid", ni.nid))
}
