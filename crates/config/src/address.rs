//! Where metrics are served.

use core::fmt;
use core::str::FromStr;

/// `HOST:PORT`, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
}

/// A text that names no such place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not HOST:PORT; for example 127.0.0.1:9909, [::1]:9909, or 0.0.0.0:9909 for all addresses \
     (there is no password); port 0 is any that is free"
)]
pub struct InvalidAddress;

impl Address {
    /// The host, without brackets, and the port.
    pub fn host_and_port(&self) -> (&str, u16) {
        (&self.host, self.port)
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Address, InvalidAddress> {
        let (host, port) = text.rsplit_once(':').ok_or(InvalidAddress)?;
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port =
            if digits { port.parse().map_err(|_| InvalidAddress)? } else { Err(InvalidAddress)? };
        let host = match host.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').filter(|ip| ip.contains(':')),
            None => Some(host).filter(|host| !host.contains([':', ']'])),
        };
        let plain = |host: &&str| {
            !host.is_empty()
                && host.len() <= 255
                && host.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let host = host.filter(plain).ok_or(InvalidAddress)?.to_owned();
        Ok(Address { host, port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_read_and_written() {
        for text in ["127.0.0.1:9988", "[::1]:9988", "[fe80::1%eth0]:1", "localhost:0", "a.b:65535"]
        {
            assert_eq!(text.parse::<Address>().map(|address| address.to_string()), Ok(text.into()));
        }
        for text in [
            "", ":", ":9988", "9988", "::1:9988", "[::1]", "[x]:1", "a:65536", "a:-1", "a:+1",
            "a b:1",
        ] {
            assert_eq!(text.parse::<Address>(), Err(InvalidAddress), "{text}");
        }
    }
}
