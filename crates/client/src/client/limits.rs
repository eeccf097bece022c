//! How many requests a target may have at once: settings that change while the client is mounted.

use lustrine_lnet::service::Turn;

use super::Client;

/// Limits on the requests at each target, with Lustre's names. None of them is left as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RpcLimits {
    /// Most reads and writes, 1 to 512.
    pub max_rpcs_in_flight: Option<u16>,
    /// Most changes of metadata, 1 to 512. What the server granted is a limit as well.
    pub max_mod_rpcs_in_flight: Option<u16>,
}

/// Why a limit is not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// There is no such setting.
    #[error("there is no setting `{0}`; max_rpcs_in_flight and max_mod_rpcs_in_flight can be set")]
    Unknown(String),
    /// The value is no number, or out of range.
    #[error("`{name}` is 1 to 512, not `{value}`")]
    Value {
        /// The setting.
        name: String,
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
        let limit = match name {
            "max_rpcs_in_flight" => &mut self.max_rpcs_in_flight,
            "max_mod_rpcs_in_flight" => &mut self.max_mod_rpcs_in_flight,
            _ => return Err(LimitError::Unknown(name.to_owned())),
        };
        match value.parse() {
            Ok(number @ 1..=LIMIT_MAX) => {
                *limit = Some(number);
                Ok(())
            }
            _ => Err(LimitError::Value { name: name.to_owned(), value: value.to_owned() }),
        }
    }
}

impl Client {
    /// The limits in force.
    pub fn limits(&self) -> RpcLimits {
        let tunables = &self.args.imports;
        RpcLimits {
            max_rpcs_in_flight: Some(tunables.max_rpcs_in_flight),
            max_mod_rpcs_in_flight: Some(tunables.max_mod_rpcs_in_flight),
        }
    }

    /// Changes the limits of all targets, also of those that are added later.
    pub fn set_limits(&mut self, turn: &mut Turn<'_>, limits: RpcLimits) {
        let tunables = &mut self.args.imports;
        let RpcLimits { max_rpcs_in_flight, max_mod_rpcs_in_flight } = limits;
        tunables.max_rpcs_in_flight = max_rpcs_in_flight.unwrap_or(tunables.max_rpcs_in_flight);
        tunables.max_mod_rpcs_in_flight =
            max_mod_rpcs_in_flight.unwrap_or(tunables.max_mod_rpcs_in_flight);
        let tunables = *tunables;
        let imports: Vec<_> = self.rpc.imports().map(|(key, _)| key).collect();
        for import in imports {
            self.rpc.with(turn, import, |import, now, xids| {
                import.set_tunables(now, xids, tunables);
            });
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
        assert_eq!(limits.max_rpcs_in_flight, Some(512));
        assert_eq!(limits.max_mod_rpcs_in_flight, None);
        for value in ["0", "513", "-1", "", "eight"] {
            let error = limits.set("max_mod_rpcs_in_flight", value).unwrap_err().to_string();
            assert!(error.contains("1 to 512"), "{error}");
        }
        assert!(matches!(limits.set("max_dirty_mb", "1"), Err(LimitError::Unknown(_))));
        assert_eq!(limits.max_mod_rpcs_in_flight, None);
    }
}
