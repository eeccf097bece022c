//! The RPM: a spec file that is made from the list of files.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use super::debian::{DESCRIPTION, SUMMARY};
use super::layout::{CONFIGURATION, Layout};

/// Where RPM's distributions expect a file that Debian has elsewhere.
const MOVED: [(&str, &str); 1] =
    [("/usr/share/zsh/vendor-completions/", "/usr/share/zsh/site-functions/")];

/// The spec file. `rpmbuild -bb --define "stage DIR"` packages the files below DIR.
pub(super) fn spec(layout: &Layout, version: &str) -> String {
    let mut text = format!(
        "# Made by `cargo xtask package`.\n\
         # rpmbuild -bb --define \"stage $PWD/stage\" lustrine.spec\n\
         %global debug_package %{{nil}}\n%global __strip /bin/true\n%global _build_id_links none\n\
         \n\
         Name: lustrine\nVersion: {version}\nRelease: 1\nSummary: {SUMMARY}\n\
         License: MIT OR Apache-2.0\nAutoReqProv: no\n\n\
         %description\n{}\n\n\
         %install\nmkdir -p %{{buildroot}}\ncp -a %{{stage}}/. %{{buildroot}}/\n",
        DESCRIPTION.join("\n")
    );
    for (from, to) in MOVED {
        for path in layout.keys().filter_map(|path| path.strip_prefix(from)) {
            let _ = writeln!(text, "mkdir -p %{{buildroot}}{to}");
            let _ = writeln!(text, "mv %{{buildroot}}{from}{path} %{{buildroot}}{to}");
        }
        let _ = writeln!(text, "rmdir %{{buildroot}}{from}");
    }
    text += "\n\
        %post\n[ ! -d /run/systemd/system ] || systemctl daemon-reload || :\n\n\
        %preun\nif [ $1 -eq 0 ] && [ -d /run/systemd/system ]; then\n\
        \x20   systemctl --no-reload disable --now lustrine-node.service || :\nfi\n\n\
        %postun\nif [ -d /run/systemd/system ]; then\n    systemctl daemon-reload || :\n\
        \x20   [ $1 -eq 0 ] || systemctl try-restart lustrine-node.service || :\nfi\n\n\
        %files\n";
    for path in directories(layout) {
        let _ = writeln!(text, "%dir {path}");
    }
    for path in files(layout) {
        let mark = match path.as_str() {
            CONFIGURATION => "%config(noreplace) ",
            _ if path.contains("/licen") || path.contains("/LICENSE") => "%license ",
            _ if path.starts_with("/usr/share/doc/") => "%doc ",
            _ => "",
        };
        // rpmbuild compresses manual pages.
        let end = if path.contains("/man/man") { "*" } else { "" };
        let _ = writeln!(text, "{mark}{path}{end}");
    }
    text
}

/// Directories that are the package's own. RPM removes those that it lists.
const OWN: [&str; 3] = ["/etc/lustrine", "/usr/lib/lustrine", "/usr/share/doc/lustrine"];

/// The package's own directories.
pub(super) fn directories(layout: &Layout) -> BTreeSet<String> {
    let files = files(layout);
    let parents = files.iter().flat_map(|path| Path::new(path).ancestors().skip(1));
    let own = parents.filter(|parent| OWN.iter().any(|own| parent.starts_with(own)));
    own.map(|path| path.display().to_string()).collect()
}

/// The paths that the RPM installs.
pub(super) fn files(layout: &Layout) -> Vec<String> {
    let moved = layout.keys().map(|path| {
        let rule = MOVED.iter().find(|(from, _)| path.starts_with(from));
        rule.map_or_else(|| path.clone(), |(from, to)| path.replacen(from, to, 1))
    });
    moved.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::layout::Content;

    #[test]
    fn every_file_of_the_layout_is_in_the_spec() {
        let paths = [
            "/usr/bin/lustrine",
            "/usr/lib/lustrine/bin/lst",
            CONFIGURATION,
            "/usr/share/zsh/vendor-completions/_lustrine",
            "/usr/share/man/man1/lustrine.1",
            "/usr/share/doc/lustrine/README.md",
        ];
        let layout = paths.map(|path| (path.to_owned(), Content::Text(String::new()))).into();
        let spec = spec(&layout, "1.2.3");
        let (head, files) = spec.split_once("%files\n").expect("it lists files");
        assert!(head.contains("\nVersion: 1.2.3\n"), "{head}");
        let listed: Vec<&str> = files.lines().collect();
        assert_eq!(
            listed,
            [
                "%dir /etc/lustrine",
                "%dir /usr/lib/lustrine",
                "%dir /usr/lib/lustrine/bin",
                "%dir /usr/share/doc/lustrine",
                "%config(noreplace) /etc/lustrine/node.yaml",
                "/usr/bin/lustrine",
                "/usr/lib/lustrine/bin/lst",
                "%doc /usr/share/doc/lustrine/README.md",
                "/usr/share/man/man1/lustrine.1*",
                "/usr/share/zsh/site-functions/_lustrine",
            ]
        );
    }
}
