//! Commands of configurations [MGS-8].

use lustrine_wire::Nid;

use crate::codec::{Reader, Short, Wire, Writer};
use crate::describe::{Describe, Value};
use crate::text::{FixedText, Text};

wire_enum! {
    /// What a record of a configuration does.
    pub struct CfgCommand: u32 {
        /// Make a device: name, type, uuid.
        ATTACH = 0xcf001, "attach";
        /// Remove a device.
        DETACH = 0xcf002, "detach";
        /// Set up a device: a binary description, or the target's uuid and its group of NIDs.
        SETUP = 0xcf003, "setup";
        /// Shut down a device.
        CLEANUP = 0xcf004, "cleanup";
        /// Add a NID to a group.
        ADD_UUID = 0xcf005, "add_uuid";
        /// Remove a group of NIDs.
        DEL_UUID = 0xcf006, "del_uuid";
        /// Declare what a mount needs.
        MOUNTOPT = 0xcf007, "mount_option";
        /// Withdraw that.
        DEL_MOUNTOPT = 0xcf008, "del_mount_option";
        /// Set the base time-out.
        SET_TIMEOUT = 0xcf009, "set_timeout";
        /// Add a group of NIDs to a device.
        ADD_CONN = 0xcf00b, "add_conn";
        /// Remove a group of NIDs from a device.
        DEL_CONN = 0xcf00c, "del_conn";
        /// Add an object server: its uuid, index and generation.
        LOV_ADD_OBD = 0xcf00d, "lov_add_osc";
        /// Remove an object server.
        LOV_DEL_OBD = 0xcf00e, "lov_del_osc";
        /// Set a parameter.
        PARAM = 0xcf00f, "param";
        /// Start or end of a group of commands.
        MARKER = 0xcf010, "marker";
        /// Add a metadata server: its uuid, index, generation and device.
        ADD_MDC = 0xcf014, "add_mdc";
        /// Remove a metadata server.
        DEL_MDC = 0xcf015, "del_mdc";
        /// Add an object server that is not active.
        LOV_ADD_INA = 0xce013, "lov_add_ina";
        /// Rules of security.
        SPTLRPC_CONF = 0xce016, "sptlrpc_conf";
        /// Make a pool.
        POOL_NEW = 0xce020, "new_pool";
        /// Add a server to a pool.
        POOL_ADD = 0xce021, "add_pool";
        /// Remove a server from a pool.
        POOL_REM = 0xce022, "rem_pool";
        /// Remove a pool.
        POOL_DEL = 0xce023, "del_pool";
        /// Set the time-out of locks.
        SET_LDLM_TIMEOUT = 0xce030, "set_ldlm_timeout";
        /// Set a parameter by its path.
        SET_PARAM = 0xce032, "set_param";
    }
}

impl CfgCommand {
    /// Whether a client that does not know it, or fails it, must not mount.
    pub const fn is_required(self) -> bool {
        self.0 & 0x1000 != 0
    }
}

wire_struct! {
    /// The head of a command; the lengths of its buffers follow.
    pub struct CfgHeader [32] {
        /// [`LustreCfg::VERSION`].
        version: u32 => hex;
        /// The command.
        command: CfgCommand;
        /// A number as argument.
        num: u32;
        /// Flags.
        flags: u32 => hex;
        /// A NID in its short form; 0 for none.
        nid: u64 => hex, pad 4;
        /// The number of buffers.
        count: u32;
    }
}

/// Why a record is not a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CfgError {
    /// It ends too early.
    #[error(transparent)]
    Short(#[from] Short),
    /// The version is unknown.
    #[error("version {0:#x} of a configuration record")]
    BadVersion(u32),
    /// There are more than seven buffers.
    #[error("{0} buffers of a configuration record: 7 are allowed")]
    TooManyBuffers(u32),
}

/// A command: a view of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LustreCfg<'a> {
    /// Its head.
    pub header: CfgHeader,
    /// Its buffers: first the name of a device, then arguments.
    pub buffers: CfgBuffers<'a>,
}

/// The buffers of a command, as many as its head says.
pub type CfgBuffers<'a> = [&'a [u8]; LustreCfg::BUFFERS_MAX];

impl<'a> LustreCfg<'a> {
    /// The only version.
    pub const VERSION: u32 = 0x1cf6_0001;
    /// The most buffers.
    pub const BUFFERS_MAX: usize = 7;

    /// Reads a command.
    ///
    /// # Errors
    /// [`CfgError`].
    pub fn parse(bytes: &'a [u8]) -> Result<LustreCfg<'a>, CfgError> {
        let mut from = Reader::new(bytes);
        let header: CfgHeader = from.value()?;
        if header.version != LustreCfg::VERSION {
            return Err(CfgError::BadVersion(header.version));
        }
        let count = header.count as usize;
        if count > LustreCfg::BUFFERS_MAX {
            return Err(CfgError::TooManyBuffers(header.count));
        }
        let mut lens = [0u32; LustreCfg::BUFFERS_MAX];
        for len in &mut lens[..count] {
            *len = from.value()?;
        }
        from.skip(4 * (count % 2))?;
        let mut buffers: CfgBuffers<'a> = Default::default();
        for (buffer, len) in buffers.iter_mut().zip(&lens[..count]) {
            *buffer = from.take(*len as usize)?;
            let pad = (*len as usize).next_multiple_of(8) - *len as usize;
            from.skip(pad)?;
        }
        Ok(LustreCfg { header, buffers })
    }

    /// A command of these buffers.
    ///
    /// # Panics
    /// If there are more than [`LustreCfg::BUFFERS_MAX`].
    pub fn new(command: CfgCommand, arguments: &[&'a [u8]]) -> LustreCfg<'a> {
        let mut buffers: CfgBuffers<'a> = Default::default();
        buffers[..arguments.len()].copy_from_slice(arguments);
        let header = CfgHeader {
            version: LustreCfg::VERSION,
            command,
            count: arguments.len() as u32,
            ..CfgHeader::default()
        };
        LustreCfg { header, buffers }
    }

    /// The buffers that the head announces.
    pub fn arguments(&self) -> &[&'a [u8]] {
        let count = (self.header.count as usize).min(LustreCfg::BUFFERS_MAX);
        &self.buffers[..count]
    }

    /// The text of buffer `index`; empty if it is missing.
    pub fn text(&self, index: usize) -> Text<'a> {
        Text::parse(self.arguments().get(index).copied().unwrap_or_default())
    }

    /// Appends the command.
    pub fn write(&self, to: &mut Writer<'_>) {
        let arguments = self.arguments();
        to.put(&self.header);
        for argument in arguments {
            to.put(&(argument.len() as u32));
        }
        to.zeros(4 * (arguments.len() % 2));
        for argument in arguments {
            to.bytes(argument);
            to.zeros(argument.len().next_multiple_of(8) - argument.len());
        }
    }

    /// The NID in the head, if there is one.
    pub const fn nid(&self) -> Option<Nid> {
        match self.header.nid {
            0 => None,
            short => Some(Nid::from_short(short)),
        }
    }

    /// The marker, of a MARKER command.
    pub fn marker(&self) -> Option<Marker> {
        if self.header.command != CfgCommand::MARKER {
            return None;
        }
        Marker::parse(self.arguments().get(1)?).ok()
    }

    /// The description of a striping device, of a SETUP command that has one.
    pub fn lov_desc(&self) -> Option<LovDesc> {
        let is_setup = self.header.command == CfgCommand::SETUP;
        let buffer = self.arguments().get(1).filter(|b| is_setup && b.len() == LovDesc::SIZE)?;
        LovDesc::parse(buffer).ok()
    }
}

impl Describe for LustreCfg<'_> {
    fn describe(&self) -> Value {
        let mut fields = vec![
            ("command", self.header.command.describe()),
            ("num", self.header.num.describe()),
            ("flags", self.header.flags.describe().hex()),
            ("nid", self.nid().map_or_else(|| Value::text("0"), Value::text)),
        ];
        let arguments = self.arguments().iter().enumerate().map(|(index, argument)| {
            if index == 1 {
                if let Some(marker) = self.marker() {
                    return marker.describe();
                }
                if let Some(desc) = self.lov_desc() {
                    return desc.describe();
                }
            }
            Value::text(Text::parse(argument))
        });
        fields.push(("arguments", Value::List(arguments.collect())));
        Value::Fields(fields)
    }
}

wire_flags! {
    /// What a marker means [MGS-9].
    pub struct MarkerFlags: u32 {
        /// A group of commands starts.
        START = 0x1;
        /// It ends.
        END = 0x2;
        /// It is to be left out.
        SKIP = 0x4;
        /// Made by an upgrade.
        UPGRADE = 0x8;
        /// Not for this node.
        EXCLUDE = 0x10;
    }
}

/// Bytes of a marker.
pub const MARKER_LEN: usize = 160;

wire_struct! {
    /// Start or end of a group of commands [MGS-9].
    pub struct Marker [160] {
        /// Number of the group.
        step: u32;
        /// What it means.
        flags: MarkerFlags;
        /// Release of the management server.
        version: u32 => hex, pad 4;
        /// When it was made, seconds since 1970.
        created: i64;
        /// When it was withdrawn, seconds since 1970; 0 if it was not.
        cancelled: i64;
        /// What it is about. Rubbish may follow the text.
        target: FixedText<64>;
        /// What is done. Rubbish may follow the text.
        comment: FixedText<64>;
    }
}

wire_struct! {
    /// The description of the device that stripes files over object servers [MGS-10].
    pub struct LovDesc [88] {
        /// 0.
        target_count: u32;
        /// [`LovDesc::MAGIC`].
        magic: u32 => hex;
        /// Default number of stripes.
        stripe_count: u32;
        /// Default pattern.
        pattern: u32 => hex;
        /// Default stripe size in bytes.
        stripe_size: u64;
        /// Default index of the first server; all ones for any.
        offset: u64 => hex, pad 4;
        /// Seconds for which free space is remembered.
        qos_maxage: u32, pad 8;
        /// Name of the device.
        uuid: FixedText<40>;
    }
}

impl LovDesc {
    /// The magic number.
    pub const MAGIC: u32 = 0xb0cc_de5c;
}

wire_struct! {
    /// The description of the device that spreads directories over metadata servers [MGS-10].
    pub struct LmvDesc [88, lead 48] {
        /// Name of the device.
        uuid: FixedText<40>;
    }
}
