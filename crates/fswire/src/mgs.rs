//! The management server: targets, their NIDs, configurations [MGS-1].

mod nids;
#[cfg(test)]
mod tests;

use crate::codec::{Array, Reader, Short, Wire, Writer};
use crate::describe::{Describe, Value};
use crate::text::FixedText;

pub use nids::{
    NidEntries, NidEntry, NidEntryHeader, NidForm, NidTableError, TargetKind, nid_table,
};

wire_flags! {
    /// What a target is, and what its registration asks for [MGS-11].
    pub struct TargetFlags: u32 {
        /// A metadata target.
        MDT = 0x1;
        /// An object storage target.
        OST = 0x2;
        /// The management server.
        MGS = 0x4;
        /// The server shall choose the index.
        NEED_INDEX = 0x10;
        /// It was never registered.
        VIRGIN = 0x20;
        /// Its logs are to be updated.
        UPDATE = 0x40;
        /// Reply: its label changed.
        REWRITE = 0x80;
        /// All logs are to be written again.
        WRITECONF = 0x100;
        /// Parameters are to be set.
        PARAM = 0x400;
        /// It has no primary node.
        NO_PRIMNODE = 0x1000;
        /// It takes part in quick recovery.
        IR_CAPABLE = 0x2000;
        /// Reply: it failed.
        ERROR = 0x4000;
        /// Parameters are in a log of their own.
        PARAM2 = 0x8000;
        /// It keeps no copies of logs.
        NO_LOCAL_LOGS = 0x1_0000;
        /// NIDs are texts behind the structure.
        LARGE_NID = 0x2_0000;
        /// Register.
        REG = 0x1000_0000;
        /// Unregister.
        UNREG = 0x2000_0000;
        /// It is up.
        READY = 0x4000_0000;
    }
}

wire_struct! {
    /// A target that registers [MGS-11].
    pub struct TargetInfoHead [448] {
        /// Release.
        version: u32 => hex;
        /// Its index.
        index: u32;
        /// Version of its configuration.
        config_version: u32;
        /// What it is and asks for.
        flags: TargetFlags;
        /// The number of NIDs.
        nid_count: u32;
        /// How many times it was mounted.
        instance: u32;
        /// The file system.
        fsname: FixedText<64>;
        /// Its name.
        svname: FixedText<64>;
        /// Its uuid.
        uuid: FixedText<40>;
        /// NIDs in their short form.
        nids: [u64; 32] => hex;
    }
}

/// A target that registers, with its parameters and the texts of its NIDs [MGS-11].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TargetInfo<'a> {
    /// The fields of fixed size.
    pub head: TargetInfoHead,
    /// Parameters: text of 4096 bytes, filled with zeros.
    pub params: FixedBytes<'a>,
    /// Texts of NIDs, with [`TargetFlags::LARGE_NID`].
    pub nid_texts: Array<'a, FixedText<64>>,
}

/// A part of a buffer whose length is fixed.
pub type FixedBytes<'a> = &'a [u8];

impl<'a> TargetInfo<'a> {
    /// Bytes of the parameters.
    pub const PARAMS_LEN: usize = 4096;
    /// Bytes without texts of NIDs.
    pub const SIZE_MIN: usize = TargetInfoHead::SIZE + TargetInfo::PARAMS_LEN;

    /// Reads the buffer. Bytes behind the last whole text are ignored.
    ///
    /// # Errors
    /// [`Short`].
    pub fn parse(bytes: &'a [u8]) -> Result<TargetInfo<'a>, Short> {
        let mut from = Reader::new(bytes);
        let head = from.value()?;
        let params = from.take(TargetInfo::PARAMS_LEN)?;
        let rest = from.rest();
        let nid_texts = Array::parse(&rest[..rest.len() / 64 * 64]).unwrap_or_default();
        Ok(TargetInfo { head, params, nid_texts })
    }

    /// Appends the buffer. Parameters of another length are cut or filled with zeros.
    pub fn write(&self, to: &mut Writer<'_>) {
        to.put(&self.head);
        let params = &self.params[..self.params.len().min(TargetInfo::PARAMS_LEN)];
        to.bytes(params);
        to.zeros(TargetInfo::PARAMS_LEN - params.len());
        self.nid_texts.write(to);
    }

    /// The parameters, up to the zero byte.
    pub fn params_text(&self) -> &'a [u8] {
        self.params.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

impl Describe for TargetInfo<'_> {
    fn describe(&self) -> Value {
        let Value::Fields(mut fields) = self.head.describe() else {
            unreachable!("structures have fields")
        };
        fields.push(("params", Value::escaped(self.params_text())));
        fields.push(("nid_texts", self.nid_texts.describe()));
        Value::Fields(fields)
    }
}

wire_enum! {
    /// The kind of a configuration, and the second number of the name of its lock [MGS-2].
    pub struct ConfigKind: u16 {
        /// A log of commands, or rules of security.
        CONFIG = 0, "config";
        /// Rules of security.
        SPTLRPC = 1, "sptlrpc";
        /// A table of NIDs.
        RECOVER = 2, "recover";
        /// Parameters.
        PARAMS = 3, "params";
        /// Maps of users, for servers.
        NODEMAP = 4, "nodemap";
        /// Barriers, for servers.
        BARRIER = 5, "barrier";
    }
}

wire_struct! {
    /// A request for a table of NIDs [MGS-12].
    pub struct ConfigBody [80] {
        /// Its name.
        name: FixedText<64>;
        /// The first version wanted.
        offset: u64;
        /// The kind of the table.
        kind: ConfigKind;
        /// 20 for long NIDs, 0 for short ones.
        nid_size: u8;
        /// The size of a unit as a power of two.
        bits: u8;
        /// Units that there is room for.
        units: u32;
    }
}

impl ConfigBody {
    /// The room for the table in bytes; none if it is above 1 MiB.
    pub fn room(&self) -> Option<u32> {
        let unit = 1u32.checked_shl(u32::from(self.bits))?;
        unit.checked_mul(self.units).filter(|&room| room <= 1 << 20)
    }
}

wire_struct! {
    /// The answer to a request for a table of NIDs [MGS-12].
    pub struct ConfigRes [16] {
        /// The highest version in this answer.
        offset: u64;
        /// The highest version of the table.
        size: u64;
    }
}
