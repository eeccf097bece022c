//! `cargo xtask package --check`: the packages are used as an administrator would use them.
//!
//! The clean root has nothing but what the package installs, so the program runs there only if it
//! is static. Each part that this machine has no program or no rights for is named in the result.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::image::DIRECTORIES;
use super::layout::{CONFIGURATION, Layout, PROGRAM, TOOLS, TOOLS_DIR, UNIT};
use super::rpm;
use crate::process::{self, ChildGuard, installed};

const RUN_MAX: Duration = Duration::from_secs(300);

/// The limit of the wait for a node that starts.
const START_MAX: Duration = Duration::from_secs(30);

/// Where commands of root keep state.
const STATE: &str = "/var/lib/lustrine";

/// The address of the node that the check starts; nothing else uses it.
const NODE: &str = "127.0.88.1";
const PORT: &str = "9988";

/// Where root's commands look for a running node.
const ROOTS_SOCKET: &str = "/run/lustrine.sock";

/// A command of each tool that only this tool has.
const GRAMMAR: [(&str, &str); 3] =
    [("lst", "new_session"), ("lnetctl", "export"), ("lctl", "which_nid")];

/// Checks what was made; returns a line about what was and what was not checked.
pub(super) fn check(
    layout: &Layout,
    stage: &Path,
    package: Option<&Path>,
    out: &Path,
) -> Result<String> {
    let mut report = Report::default();
    report.take("manual pages", need(&["man"]), || manual_pages(layout, stage))?;
    report.take("systemd unit", need(&["systemd-analyze"]), || unit(stage))?;
    let rights = need(&["chroot"]).and_then(|()| root_only());
    report.take("program in an empty root", rights.clone(), || {
        let empty = tempfile::tempdir()?;
        let program = empty.path().join("lustrine");
        fs::copy(out.join("lustrine"), program)?;
        let said = run(Command::new("chroot").arg(empty.path()).args(["/lustrine", "--version"]))?;
        ensure!(said.trim() == format!("lustrine {}", env!("CARGO_PKG_VERSION")), "{said}");
        Ok(())
    })?;
    report.take("container image", rights.clone(), || image(out))?;
    let rights = rights.and_then(|()| need(&["dpkg"])).and_then(|()| match package {
        Some(_) => Ok(()),
        None => Err("no package was made".to_owned()),
    });
    report.take("Debian package", rights, || match package {
        Some(package) => debian(layout, package),
        None => Ok(()),
    })?;
    report.take("RPM", need(&["rpmbuild", "rpm"]), || rpm_package(layout, stage, out))?;
    Ok(report.line())
}

/// What was checked, and what was not.
#[derive(Default)]
struct Report {
    done: Vec<&'static str>,
    left: Vec<String>,
}

impl Report {
    /// Checks something if this machine can; `can` says what it lacks otherwise.
    fn take(
        &mut self,
        what: &'static str,
        can: Result<(), String>,
        check: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        match can {
            Ok(()) => {
                check().context(what)?;
                println!("package: checked: {what}");
                self.done.push(what);
            }
            Err(lacks) => {
                println!("package: not checked: {what}: {lacks}");
                self.left.push(format!("{what} ({lacks})"));
            }
        }
        Ok(())
    }

    fn line(&self) -> String {
        let left = match self.left.is_empty() {
            true => String::new(),
            false => format!("; not checked: {}", self.left.join(", ")),
        };
        format!("checked: {}{left}", self.done.join(", "))
    }
}

fn need(programs: &[&str]) -> Result<(), String> {
    match programs.iter().find(|program| !installed(program)) {
        Some(missing) => Err(format!("{missing} is not installed")),
        None => Ok(()),
    }
}

fn root_only() -> Result<(), String> {
    match lustrine_testing::is_root() {
        true => Ok(()),
        false => Err("it needs root".to_owned()),
    }
}

/// Runs a command and returns its standard output.
fn run(command: &mut Command) -> Result<String> {
    let what = format!("{command:?}");
    process::capture(command, RUN_MAX)?.output(&what)
}

/// The program of the image runs there, and has the configuration and the directories that it
/// needs. The container itself is not made.
fn image(out: &Path) -> Result<()> {
    let dir = out.join("image");
    for (name, mode) in DIRECTORIES {
        let about = fs::metadata(dir.join(name)).with_context(|| name.to_owned())?;
        ensure!(about.permissions().mode() & 0o7777 == mode, "{name}: {about:?}");
    }
    let mut inside = Command::new("chroot");
    inside.arg(&dir).args([PROGRAM, "--version"]);
    let said = run(&mut inside)?;
    ensure!(said.trim() == format!("lustrine {}", env!("CARGO_PKG_VERSION")), "{said}");
    let containerfile = fs::read_to_string(out.join("Containerfile"))?;
    for path in ["COPY image /", PROGRAM, CONFIGURATION] {
        ensure!(containerfile.contains(path), "Containerfile does not have {path}");
    }
    ensure!(dir.join(&CONFIGURATION[1..]).is_file(), "{CONFIGURATION} is not in the image");
    in_image(&dir, &containerfile)
}

/// The commands of the documentation run with the environment and the command of the image: `ping`
/// without a node, and through the node that the image runs.
fn in_image(dir: &Path, containerfile: &str) -> Result<()> {
    let lustrine = |args: &[&str]| {
        let mut command = Command::new("chroot");
        command.arg(dir).arg(PROGRAM).args(args).env_clear().envs(environment(containerfile));
        // Containers have one as well; `chroot` is found by it.
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command
    };
    let nid = format!("{NODE}@tcp");
    let ping = ["ping", &nid, "--timeout", "5"];
    let alone = process::capture(&mut lustrine(&ping), RUN_MAX)?;
    // Nothing has this address. A command that looks for a running node does not get that far.
    ensure!(alone.stderr.contains("nothing listens"), "ping without a node: {}", alone.stderr);

    let net = format!("tcp={NODE}:{PORT}");
    let words = command_of(containerfile).context("the Containerfile has no CMD")?;
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["--net", &net]).collect();
    let mut node = ChildGuard::silent(&mut lustrine(&words))?;
    wait_for(&dir.join(&ROOTS_SOCKET[1..]))?;
    let said = run(&mut lustrine(&ping))?;
    ensure!(said.contains(&nid), "ping through the node: {said}");
    run(Command::new("kill").args(["-TERM", &node.id().to_string()]))?;
    let status = node.wait(START_MAX)?;
    ensure!(status.success(), "the node of the image ended with {status}");
    Ok(())
}

/// The variables that a Containerfile sets, one in each line.
fn environment(containerfile: &str) -> Vec<(String, String)> {
    let set = containerfile.lines().filter_map(|line| line.strip_prefix("ENV ")?.split_once('='));
    set.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

/// The words of a Containerfile's command, which is a list in JSON.
fn command_of(containerfile: &str) -> Option<Vec<String>> {
    let list = containerfile.lines().find_map(|line| line.strip_prefix("CMD "))?;
    serde_json::from_str(list).ok()
}

/// `man` formats every page, without a warning.
fn manual_pages(layout: &Layout, stage: &Path) -> Result<()> {
    let pages: Vec<&String> = layout.keys().filter(|path| path.contains("/man/man")).collect();
    ensure!(pages.len() > TOOLS.len(), "only {} pages", pages.len());
    for page in pages {
        let mut man = Command::new("man");
        man.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "80");
        man.args(["--warnings", "-l"]).arg(stage.join(&page[1..]));
        let finished = process::capture(&mut man, RUN_MAX)?;
        ensure!(finished.stderr.is_empty(), "{page}: {}", finished.stderr);
        let text = finished.output(page)?;
        ensure!(text.contains("NAME") && text.contains("SYNOPSIS"), "{page}: {text}");
    }
    Ok(())
}

/// systemd accepts the unit, and its exposure is low.
fn unit(stage: &Path) -> Result<()> {
    let unit = UNIT.rsplit('/').next().unwrap_or(UNIT);
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--recursive-errors=no"]);
    verify.arg(format!("--root={}", stage.display())).arg(unit);
    let finished = process::capture(&mut verify, RUN_MAX)?;
    ensure!(finished.status.success(), "{}{}", finished.stdout, finished.stderr);
    let mut security = Command::new("systemd-analyze");
    // In tenths: systemd calls a service up to 2.0 safe.
    security.args(["security", "--offline=true", "--threshold=20", "--no-pager"]);
    run(security.arg(stage.join(&UNIT[1..])))?;
    Ok(())
}

/// Installs, uses, upgrades, removes and purges the package in a clean root.
fn debian(layout: &Layout, package: &Path) -> Result<()> {
    for path in layout.keys() {
        let name = path.rsplit('/').next().and_then(|name| name.split('.').next());
        let own = ["/usr/lib/lustrine/", "/usr/share/doc/lustrine/"];
        ensure!(
            own.iter().any(|dir| path.starts_with(dir)) || !TOOLS.iter().any(|t| name == Some(*t)),
            "{path} is in the way of Lustre's own packages"
        );
    }
    let root = CleanRoot::new()?;
    root.dpkg(&["--install"], package.as_os_str().to_str())?;
    for path in layout.keys() {
        ensure!(fs::symlink_metadata(root.at(path)).is_ok(), "{path} is not installed");
    }
    let altered = root.dpkg(&["--verify", "lustrine"], None)?;
    ensure!(altered.is_empty(), "dpkg --verify: {altered}");
    tools(&root)?;
    node(&root)?;

    let configuration = root.at(CONFIGURATION);
    let changed = format!("{}# A change.\n", fs::read_to_string(&configuration)?);
    fs::write(&configuration, &changed)?;
    root.dpkg(&["--install"], package.as_os_str().to_str())?;
    ensure!(fs::read_to_string(&configuration)? == changed, "an upgrade lost the configuration");
    // As `lustrine tune --apply` and `lustrine watch` make it.
    let state = root.at(STATE);
    fs::create_dir(&state)?;
    fs::write(state.join("tune.json"), "")?;
    root.dpkg(&["--remove", "lustrine"], None)?;
    ensure!(configuration.is_file(), "removing the package removed the configuration");
    ensure!(state.is_dir(), "removing the package removed {STATE}");
    root.dpkg(&["--purge", "lustrine"], None)?;
    let left = root.files()?;
    ensure!(left.is_empty(), "after purge there is still {left:?}");
    Ok(())
}

/// Each link answers as the tool of its name.
fn tools(root: &CleanRoot) -> Result<()> {
    for (tool, command) in GRAMMAR {
        let said = run(&mut root.command(&[&format!("{TOOLS_DIR}/{tool}"), "--list-commands"]))?;
        let listed = said.split_whitespace().any(|word| word == command);
        ensure!(listed, "{tool} does not list {command}: {said}");
    }
    let said = process::capture(
        &mut root.command(&[&format!("{TOOLS_DIR}/routerstat"), "--help"]),
        RUN_MAX,
    )?;
    let said = said.stdout + &said.stderr;
    ensure!(said.contains("routerstat"), "routerstat says {said}");
    for (helper, word) in [("mount.lustrine", "SPEC"), ("umount.fuse.lustrine", "mount point")] {
        let said = run(&mut root.command(&[&format!("/usr/sbin/{helper}"), "--help"]))?;
        ensure!(said.contains(word), "{helper} says {said}");
    }
    Ok(())
}

/// A node runs with the installed configuration, and root's commands find it; a whole session of
/// `lst` measures it.
fn node(root: &CleanRoot) -> Result<()> {
    // systemd makes it: `RuntimeDirectory`.
    fs::create_dir_all(root.at("/run/lustrine"))?;
    let net = format!("tcp={NODE}:{PORT}");
    let mut command = root.command(&["/usr/bin/lustrine", "node", "--config", CONFIGURATION]);
    let node = ChildGuard::silent(command.args(["--net", &net, "--selftest", "full"]))?;
    let nid = format!("{NODE}@tcp");
    let lustrine = |args: &[&str]| run(&mut root.command(&[&["/usr/bin/lustrine"], args].concat()));
    let socket = root.at("/run/lustrine/node.sock");
    wait_for(&socket)?;
    let said = lustrine(&["show", "net"])?;
    ensure!(said.contains(&nid), "show net: {said}");
    let said = lustrine(&["ping", &nid])?;
    ensure!(said.contains(&nid), "ping: {said}");
    let lst = format!("{TOOLS_DIR}/lst");
    for words in [
        "new_session check",
        "add_group one NID",
        "add_batch bulk",
        "add_test --batch bulk --concurrency 4 --from one --to one brw read size=64K check=simple",
        "run bulk",
        "stat --count 2 --delay 1 one",
        "stop bulk",
        "end_session",
    ] {
        let words = words.replace("NID", &nid);
        let args: Vec<&str> = words.split(' ').collect();
        let mut command = root.command(&[&[lst.as_str()], &args[..]].concat());
        let said = run(command.env("LST_SESSION", "88"))?;
        if args[0] == "stat" {
            let rates = said.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
            ensure!(rates.fold(0.0, f64::max) > 0.0, "lst stat shows no rate: {said}");
        }
    }
    let pid = node.id().to_string();
    run(Command::new("kill").args(["-TERM", &pid]))?;
    let mut node = node;
    let status = node.wait(START_MAX)?;
    ensure!(status.success(), "the node ended with {status}");
    fs::remove_dir_all(root.at("/run"))?;
    Ok(())
}

fn wait_for(path: &Path) -> Result<()> {
    let deadline = std::time::Instant::now() + START_MAX;
    while !path.exists() {
        if std::time::Instant::now() > deadline {
            bail!("{} does not appear: the node has not started", path.display());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A directory that is the root of installations, empty but for the records of dpkg.
struct CleanRoot(tempfile::TempDir);

impl CleanRoot {
    fn new() -> Result<CleanRoot> {
        let root = CleanRoot(tempfile::tempdir()?);
        let records = root.at("/var/lib/dpkg");
        for dir in ["info", "updates", "triggers"] {
            fs::create_dir_all(records.join(dir))?;
        }
        fs::write(records.join("status"), "")?;
        Ok(root)
    }

    /// A path of the root, on this machine.
    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    /// A command with its arguments, run in the root.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("chroot");
        command.arg(self.0.path()).args(words);
        for name in ["LUSTRINE_CONTROL", "XDG_RUNTIME_DIR", "LUSTRINE_LST_DIR", "LST_SESSION"] {
            command.env_remove(name);
        }
        command
    }

    fn dpkg(&self, words: &[&str], file: Option<&str>) -> Result<String> {
        let mut dpkg = Command::new("dpkg");
        dpkg.env("LC_ALL", "C").arg(format!("--root={}", self.0.path().display()));
        // The root has no shell: the scripts run outside, and DPKG_ROOT says where it is.
        dpkg.args(["--force-script-chrootless", "--log=/dev/null"]);
        run(dpkg.args(words).args(file))
    }

    /// All files and directories, without dpkg's own.
    fn files(&self) -> Result<BTreeSet<PathBuf>> {
        let mut found = BTreeSet::new();
        let mut open = vec![self.0.path().to_path_buf()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(&dir)? {
                let entry = entry?;
                let path = entry.path();
                let relative = path.strip_prefix(self.0.path())?.to_path_buf();
                if relative.starts_with("var/lib/dpkg") {
                    continue;
                }
                if entry.file_type()?.is_dir() {
                    open.push(path);
                }
                if !Path::new("var/lib/dpkg").starts_with(&relative) {
                    found.insert(relative);
                }
            }
        }
        Ok(found)
    }
}

/// `rpmbuild` takes the spec file, and the RPM has the files of the list.
fn rpm_package(layout: &Layout, stage: &Path, out: &Path) -> Result<()> {
    let top = tempfile::tempdir()?;
    let mut build = Command::new("rpmbuild");
    build.arg("-bb").args(["--define", &format!("stage {}", stage.display())]);
    build.args(["--define", &format!("_topdir {}", top.path().display())]);
    run(build.arg(out.join("lustrine.spec")))?;
    let rpms = top.path().join("RPMS");
    let arch = fs::read_dir(&rpms)?.next().context("rpmbuild made nothing")??.path();
    let made = fs::read_dir(&arch)?.next().context("rpmbuild made nothing")??.path();
    let listed = run(Command::new("rpm").args(["-qlp"]).arg(&made))?;
    let listed: BTreeSet<&str> = listed.lines().map(|path| path.trim_end_matches(".gz")).collect();
    for path in rpm::files(layout).into_iter().chain(rpm::directories(layout)) {
        ensure!(listed.contains(path.as_str()), "the RPM has no {path}");
    }
    let to = out.join(made.file_name().context("a file has a name")?);
    fs::copy(&made, &to)?;
    println!("package: {}", to.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::root;

    /// `--check` runs the commands of the image, but only as root.
    #[test]
    fn the_image_names_its_socket_to_the_node_alone() {
        let text = fs::read_to_string(root().join("packaging/Containerfile")).expect("it is there");
        let words = command_of(&text).expect("a list of words");
        assert!(words.windows(2).any(|two| two == ["--control", ROOTS_SOCKET]), "{words:?}");
        // With it, every command would need a running node.
        assert!(environment(&text).iter().all(|(name, _)| name != "LUSTRINE_CONTROL"));
        let old = "ENV LUSTRINE_CONTROL=/run/lustrine.sock\nCMD [\"node\"]\n";
        assert_eq!(environment(old).len(), 1);
        assert_eq!(command_of(old), Some(vec!["node".to_owned()]));
    }
}
