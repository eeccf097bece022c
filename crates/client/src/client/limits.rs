//! How many requests a target may have at once: settings that change while the client is mounted.

use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::ImportTunables;

use super::Client;

/// Limits on the requests at each target, with Lustre's names. None of them is left as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RpcLimits {
    /// Reads and writes.
    pub max_rpcs_in_flight: Option<MaxRpcs>,
    /// Most changes of metadata, 1 to 512. What the server granted is a limit as well.
    pub max_mod_rpcs_in_flight: Option<u16>,
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

/// Why a limit is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// There is no such setting.
    #[error("there is no setting `{0}`; max_rpcs_in_flight and max_mod_rpcs_in_flight can be set")]
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

impl RpcLimits {
    /// Sets a limit by its name.
    ///
    /// # Errors
    /// [`LimitError`].
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), LimitError> {
        let number = value.parse().ok().filter(|number| (1..=LIMIT_MAX).contains(number));
        let allowed = match name {
            "max_rpcs_in_flight" => "1 to 512 or `auto`",
            "max_mod_rpcs_in_flight" => "1 to 512",
            _ => return Err(LimitError::Unknown(name.to_owned())),
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
            _ => {
                let (name, value) = (name.to_owned(), value.to_owned());
                return Err(LimitError::Value { name, allowed, value });
            }
        }
        Ok(())
    }
}

impl Client {
    /// The limits in force.
    pub fn limits(&self) -> RpcLimits {
        let tunables = &self.args.imports;
        RpcLimits {
            max_rpcs_in_flight: Some(match tunables.window {
                None => MaxRpcs::Fixed(tunables.max_rpcs_in_flight),
                Some(_) => MaxRpcs::Auto,
            }),
            max_mod_rpcs_in_flight: Some(tunables.max_mod_rpcs_in_flight),
        }
    }

    /// Changes the limits of all targets, also of those that are added later. It replaces what the
    /// configuration has set before; what the configuration sets later replaces it.
    pub fn set_limits(&mut self, turn: &mut Turn<'_>, limits: RpcLimits) {
        let wall = self.wall_clock();
        let RpcLimits { max_rpcs_in_flight, max_mod_rpcs_in_flight } = limits;
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
        };
        let names = [
            max_rpcs_in_flight.map(|_| "max_rpcs_in_flight"),
            max_mod_rpcs_in_flight.map(|_| "max_mod_rpcs_in_flight"),
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
    fn limits_are_set_by_their_names() {
        let mut limits = RpcLimits::default();
        assert_eq!(limits.set("max_rpcs_in_flight", "512"), Ok(()));
        assert_eq!(limits.max_rpcs_in_flight, Some(MaxRpcs::Fixed(512)));
        assert_eq!(limits.set("max_rpcs_in_flight", "auto"), Ok(()));
        assert_eq!(limits.max_rpcs_in_flight, Some(MaxRpcs::Auto));
        let error = limits.set("max_mod_rpcs_in_flight", "auto").unwrap_err().to_string();
        assert_eq!(error, "`max_mod_rpcs_in_flight` is 1 to 512, not `auto`");
        assert_eq!(limits.max_mod_rpcs_in_flight, None);
        for value in ["0", "513", "-1", "", "eight"] {
            let error = limits.set("max_mod_rpcs_in_flight", value).unwrap_err().to_string();
            assert!(error.contains("1 to 512"), "{error}");
        }
        assert!(matches!(limits.set("max_dirty_mb", "1"), Err(LimitError::Unknown(_))));
        assert_eq!(limits.max_mod_rpcs_in_flight, None);
    }
}
