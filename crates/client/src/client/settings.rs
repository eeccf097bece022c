//! Settings of the requests at targets that change while the client is mounted.

use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::ImportTunables;

use super::Client;

/// Settings of the requests at each target, with Lustre's names. What is `None` is left as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RpcSettings {
    /// Reads and writes.
    pub max_rpcs_in_flight: Option<MaxRpcs>,
    /// Most changes of metadata, 1 to 512. What the server granted is a limit as well.
    pub max_mod_rpcs_in_flight: Option<u16>,
    /// Whether data have checksums.
    pub checksums: Option<bool>,
}

/// How many reads and writes a target may have at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxRpcs {
    /// So many at most, 1 to 512.
    Fixed(u16),
    /// As many as the path and the target carry, at most 512: each target has a window
    /// ([`lustrine_ptlrpc::ImportTunables::window`]).
    Auto,
}

/// Why a setting is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no such setting.
    #[error(
        "there is no setting `{0}`; the settings are max_rpcs_in_flight, \
             max_mod_rpcs_in_flight and checksums"
    )]
    Unknown(String),
    /// The value is no number, or out of range.
    #[error("`{name}` is {allowed}, not `{value}`")]
    Value {
        /// The setting.
        name: String,
        /// What it may be.
        allowed: &'static str,
        /// What was given.
        value: String,
    },
}

/// The largest limit.
const LIMIT_MAX: u16 = 512;

impl RpcSettings {
    /// Sets one by its name.
    ///
    /// # Errors
    /// [`SettingError`].
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let number = value.parse().ok().filter(|number| (1..=LIMIT_MAX).contains(number));
        let allowed = match name {
            "max_rpcs_in_flight" => "1 to 512 or `auto`",
            "max_mod_rpcs_in_flight" => "1 to 512",
            "checksums" => "0 or 1",
            _ => return Err(SettingError::Unknown(name.to_owned())),
        };
        match (name, number) {
            ("max_rpcs_in_flight", Some(number)) => {
                self.max_rpcs_in_flight = Some(MaxRpcs::Fixed(number));
            }
            ("max_rpcs_in_flight", None) if value == "auto" => {
                self.max_rpcs_in_flight = Some(MaxRpcs::Auto);
            }
            ("max_mod_rpcs_in_flight", Some(number)) => {
                self.max_mod_rpcs_in_flight = Some(number);
            }
            ("checksums", _) if value == "0" => self.checksums = Some(false),
            ("checksums", _) if value == "1" => self.checksums = Some(true),
            _ => {
                let (name, value) = (name.to_owned(), value.to_owned());
                return Err(SettingError::Value { name, allowed, value });
            }
        }
        Ok(())
    }
}

impl Client {
    /// The settings in force.
    pub fn rpc_settings(&self) -> RpcSettings {
        let tunables = &self.args.imports;
        RpcSettings {
            max_rpcs_in_flight: Some(match tunables.window {
                None => MaxRpcs::Fixed(tunables.max_rpcs_in_flight),
                Some(_) => MaxRpcs::Auto,
            }),
            max_mod_rpcs_in_flight: Some(tunables.max_mod_rpcs_in_flight),
            checksums: Some(tunables.checksums),
        }
    }

    /// Changes the settings of all targets, also of those that are added later. It replaces what
    /// the configuration has set before; what the configuration sets later replaces it.
    pub fn set_rpc_settings(&mut self, turn: &mut Turn<'_>, settings: RpcSettings) {
        let wall = self.wall_clock();
        let RpcSettings { max_rpcs_in_flight, max_mod_rpcs_in_flight, checksums } = settings;
        let change = move |tunables: &mut ImportTunables| {
            match max_rpcs_in_flight {
                Some(MaxRpcs::Fixed(number)) => {
                    (tunables.max_rpcs_in_flight, tunables.window) = (number, None);
                }
                Some(MaxRpcs::Auto) => {
                    (tunables.max_rpcs_in_flight, tunables.window) = (LIMIT_MAX, Some(wall));
                }
                None => {}
            }
            let most = max_mod_rpcs_in_flight.unwrap_or(tunables.max_mod_rpcs_in_flight);
            tunables.max_mod_rpcs_in_flight = most;
            tunables.checksums = checksums.unwrap_or(tunables.checksums);
        };
        let names = [
            max_rpcs_in_flight.map(|_| "max_rpcs_in_flight"),
            max_mod_rpcs_in_flight.map(|_| "max_mod_rpcs_in_flight"),
            checksums.map(|_| "checksums"),
        ];
        self.forget_parameters(&names.into_iter().flatten().collect::<Vec<_>>());
        change(&mut self.args.imports);
        for import in self.rpc.imports().map(|(key, _)| key).collect::<Vec<_>>() {
            self.tune(turn, import, change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_set_by_their_names() {
        let mut settings = RpcSettings::default();
        assert_eq!(settings.set("max_rpcs_in_flight", "512"), Ok(()));
        assert_eq!(settings.max_rpcs_in_flight, Some(MaxRpcs::Fixed(512)));
        assert_eq!(settings.set("max_rpcs_in_flight", "auto"), Ok(()));
        assert_eq!(settings.max_rpcs_in_flight, Some(MaxRpcs::Auto));
        let error = settings.set("max_mod_rpcs_in_flight", "auto").unwrap_err().to_string();
        assert_eq!(error, "`max_mod_rpcs_in_flight` is 1 to 512, not `auto`");
        assert_eq!(settings.max_mod_rpcs_in_flight, None);
        for value in ["0", "513", "-1", "", "eight"] {
            let error = settings.set("max_mod_rpcs_in_flight", value).unwrap_err().to_string();
            assert!(error.contains("1 to 512"), "{error}");
        }
        assert_eq!(settings.set("checksums", "0"), Ok(()));
        assert_eq!(settings.checksums, Some(false));
        let error = settings.set("checksums", "off").unwrap_err().to_string();
        assert_eq!(error, "`checksums` is 0 or 1, not `off`");
        assert!(matches!(settings.set("max_dirty_mb", "1"), Err(SettingError::Unknown(_))));
        assert_eq!(settings.max_mod_rpcs_in_flight, None);
    }
}
