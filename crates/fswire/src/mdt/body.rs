//! `mdt_body`, the structure of most metadata requests and replies.

use crate::fid::{Fid, Handle};
use crate::mdt::{FileFlags, MdValid};

wire_struct! {
    /// Attributes of a file, or what a request asks about it [MDT-3].
    pub struct MdtBody [216] {
        /// The object; the parent in requests by name.
        fid1: Fid;
        /// The child in a request, if it is known.
        fid2: Fid;
        /// Reply to an open: the handle.
        open_handle: Handle;
        /// Reply: the fields that hold values. Request: what is wanted.
        valid: MdValid;
        /// Bytes. Request to read a directory: the hash to start at.
        size: u64;
        /// Seconds since 1970.
        mtime: i64;
        /// Seconds since 1970.
        atime: i64;
        /// Seconds since 1970.
        ctime: i64;
        /// Units of 512 bytes.
        blocks: u64;
        /// Version of the data.
        version: u64 => hex;
        /// Reply: 1 while the file is restored from an archive.
        t_state: u64;
        /// Request: the user whose rights count.
        fsuid: u32;
        /// Request: the group whose rights count.
        fsgid: u32;
        /// Request: effective capabilities, bits 0 to 31.
        capability: u32 => hex;
        /// Type and permissions. Request to read a directory: [`LudaFlags`](super::LudaFlags).
        mode: u32 => octal;
        /// Reply: the owner. Request: the caller.
        uid: u32;
        /// Reply: the group. Request: the caller's.
        gid: u32;
        /// Reply: attributes of the file.
        flags: FileFlags;
        /// Device number: the major number in bits 8 to 15, the minor one in bits 0 to 7.
        rdev: u32 => hex;
        /// Links. Request to read a directory: bytes wanted.
        nlink: u32;
        /// Reply: generation of the layout.
        layout_gen: u32;
        /// Request: one more group of the caller; -1 for none.
        suppgid: u32 => or_none;
        /// Request: room for the layout or value. Reply: its length.
        eadatasize: u32;
        /// Reply: length of the access control list, or of all values of attributes.
        aclsize: u32;
        /// Reply: largest layout on this server, or number of attributes.
        max_mdsize: u32, pad 12;
        /// Project.
        projid: u32;
        /// Reply: bytes on the metadata server.
        dom_size: u64;
        /// Reply: units of 512 bytes on the metadata server.
        dom_blocks: u64;
        /// Reply: when it was created, seconds since 1970.
        btime: i64, pad 16;
    }
}
