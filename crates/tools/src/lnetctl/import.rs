//! `import`: applies a file to a node, completely or not at all [TOOL-16].

use lustrine_control::{ChangeReport, ChangeRequest, ImportMode};

use super::Lnetctl;
use crate::diff;
use crate::errno::{EIO, EOPNOTSUPP};
use crate::node::Env;
use crate::parse::Parsed;
use crate::shell::Exit;

impl<O: Env> Lnetctl<'_, O> {
    pub(super) fn import(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let mode = match ["add", "del", "exact"].map(|option| parsed.has(option)) {
            [_, false, false] => ImportMode::Add,
            [false, true, false] => ImportMode::Del,
            [false, false, true] => ImportMode::Exact,
            _ => {
                let said = "use only one of --add, --del and --exact";
                return Err(self.invalid("add", "import", said));
            }
        };
        let verb = if mode == ImportMode::Del { "del" } else { "add" };
        for (option, instead) in [
            ("show", "`lnetctl net show`; to see what would change, --dry-run or --diff"),
            ("exec", "`lnetctl ping` and `lnetctl discover`"),
        ] {
            if parsed.has(option) {
                let said =
                    format!("import --{option} is not supported in this release: use {instead}");
                return Err(self.fail(verb, "import", -(EOPNOTSUPP as i32), said));
            }
        }
        let path = parsed.positionals().first().map(String::as_str).filter(|path| *path != "-");
        let source_name = path.unwrap_or("stdin").to_owned();
        let text = match self.env.read(path) {
            Ok(text) => text,
            Err(why) => {
                let said = format!("cannot read {source_name}: {why}");
                return Err(self.fail(verb, "import", -(EIO as i32), said));
            }
        };
        let lenient = parsed.has("lenient");
        let (dry_run, diff) = (parsed.has("dry-run"), parsed.has("diff"));
        let change =
            ChangeRequest::Import { text, source_name: source_name.clone(), mode, lenient };
        match self.env.change(&change, dry_run || diff) {
            Ok(changed) => {
                self.warn(&changed.warnings);
                self.report(&changed, dry_run, diff, &source_name);
                Ok(())
            }
            Err(trouble) => Err(self.fail_with(verb, "import", trouble)),
        }
    }

    /// Prints what would be done, and how the configuration would differ.
    fn report(&mut self, changed: &ChangeReport, dry_run: bool, diff: bool, source_name: &str) {
        if dry_run {
            let text = match changed.steps.is_empty() {
                true => "nothing would change\n".to_owned(),
                false => changed.steps.iter().map(|step| format!("would {step}\n")).collect(),
            };
            self.env.out(&text);
        }
        if diff {
            let with = format!("with {source_name}");
            let text = diff::unified(&changed.before, &changed.after, ("current", &with));
            self.env.out(&text);
        }
    }
}
