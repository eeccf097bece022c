//! Writes with O_DIRECT through the kernel's asynchronous interface (libaio).

use std::path::Path;
use std::process::Command;

use lustrine_testing::{Need, not_run};

use super::{Lustre, can_run_scripts};
use crate::common::{Finished, finish};

/// What the scripts below start with: one write through io_submit(2), by the numbers of the system
/// calls on x86-64, so that no library is needed.
const AIO: &str = r#"
import ctypes, errno, mmap, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)

def call(*words):
    done = libc.syscall(*words)
    if done < 0:
        raise OSError(ctypes.get_errno(), "system call %d" % words[0])

def write(file, data, offset):
    memory = mmap.mmap(-1, len(data))
    memory[:] = data
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    context, one = ctypes.c_ulong(0), ctypes.c_long(1)
    fields = (0, 0, 0, 1, 0, file, address, len(data), offset, 0, 0, 0)
    block = ctypes.create_string_buffer(struct.pack("=QIiHhIQQqQII", *fields))
    blocks = (ctypes.c_void_p * 1)(ctypes.addressof(block))
    event = ctypes.create_string_buffer(32)
    call(206, one, ctypes.byref(context))
    call(209, context, one, blocks)
    call(208, context, one, one, event, None)
    call(207, context)
    return struct.unpack("=QQqq", event.raw)[2]
"#;

/// Whether the scripts can be run here; if not, that is recorded.
#[track_caller]
fn can_run() -> bool {
    if !cfg!(target_arch = "x86_64") {
        not_run(Need::Program, "the script knows the system calls of x86-64 alone");
        return false;
    }
    can_run_scripts()
}

fn run(script: &str, arguments: &[&Path]) -> Finished {
    finish(Command::new("python3").arg("-c").arg(format!("{AIO}{script}")).args(arguments))
}

/// The kernel divides what is larger than 1 MiB. Each part goes to the end of the file.
#[test]
fn the_parts_of_a_large_append_have_their_order_or_it_fails() {
    if !can_run() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let mount = lustre.mount("m");
    let script = r#"
parts = b"".join(bytes([65 + part]) * (1 << 20) for part in range(8))
for size in [8 << 20] * 10 + [1 << 20]:
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_DIRECT)
    written = write(file, parts[:size], 0)
    os.close(file)
    with open(sys.argv[1], "rb") as found:
        data = found.read()
    if written == -errno.EIO and size > 1 << 20:
        assert data == b"", "what was stored in another order is cut"
    else:
        assert (written, data) == (size, parts[:size]), (written, data[::1 << 20])
    os.unlink(sys.argv[1])
"#;
    run(script, &[&mount.path("file")]).ok();
    mount.umount().ok();
}

/// The kernel then sets the size that it knows. Another client has written behind that.
#[test]
fn a_write_that_fails_does_not_cut_what_others_have_written() {
    if !can_run() {
        return;
    }
    let lustre = Lustre::for_mounts();
    let (one, other) = (lustre.mount("one"), lustre.mount("other"));
    let script = r#"
one, other = sys.argv[1:]
with open(one, "wb") as start:
    start.write(b"a" * 1000)
file = os.open(one, os.O_RDWR | os.O_DIRECT)
assert os.fstat(file).st_size == 1000
with open(other, "ab") as more:
    more.write(b"b" * 1000)
# No target has objects as large as that.
assert write(file, b"c" * 4096, 1 << 60) == -27
assert os.stat(other).st_size == 2000
assert os.fstat(file).st_size == 2000
# A program that cuts the file cuts it.
assert write(file, b"c" * 4096, 1 << 60) == -27
assert os.stat(other).st_size == 2000
os.ftruncate(file, 500)
assert os.stat(other).st_size == 500
"#;
    run(script, &[&one.path("file"), &other.path("file")]).ok();
    one.umount().ok();
    other.umount().ok();
}
