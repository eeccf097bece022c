//! The service manager that started this process, as systemd with `Type=notify`, and notifications
//! to it: that the service is ready, that it is alive, and that it stops.
//!
//! Each message is one datagram to the Unix socket that the variable `NOTIFY_SOCKET` names.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// How long a message may wait for room in the service manager's queue.
const SEND_MAX: Duration = Duration::from_secs(1);

/// The way to the service manager.
#[derive(Debug)]
pub struct ServiceManager {
    socket: UnixDatagram,
    address: SocketAddr,
    watchdog: Option<Duration>,
}

/// A notification to the service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState<'a> {
    /// The service is ready; a line about it, for people.
    Ready(&'a str),
    /// The service is alive.
    Alive,
    /// The service has begun to stop.
    Stopping,
}

impl ServiceManager {
    /// The service manager that these environment variables name: `NOTIFY_SOCKET`, `WATCHDOG_USEC`
    /// and `WATCHDOG_PID`. `None` if none waits for messages.
    ///
    /// # Errors
    /// When the socket's name is not one of a Unix socket, or descriptors are used up.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> io::Result<Option<ServiceManager>> {
        let Some(name) = variable("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Ok(None);
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(SEND_MAX))?;
        let address = address(&name)?;
        Ok(Some(ServiceManager { socket, address, watchdog: watchdog(variable) }))
    }

    /// The time after which the service manager ends a service that does not say that it is alive;
    /// `None` if it does not watch this process.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Sends a message. It waits for a second at most.
    ///
    /// # Errors
    /// When no process receives there.
    pub fn notify(&self, state: ServiceState<'_>) -> io::Result<()> {
        let message = match state {
            ServiceState::Ready(about) => {
                // A line end would begin another variable.
                format!("READY=1\nSTATUS={}", about.replace('\n', " "))
            }
            ServiceState::Alive => "WATCHDOG=1".to_owned(),
            ServiceState::Stopping => "STOPPING=1".to_owned(),
        };
        self.socket.send_to_addr(message.as_bytes(), &self.address).map(|_| ())
    }
}

/// A path, or `@` and the name of an abstract socket.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(name),
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest),
        _ => Err(io::Error::new(
            ErrorKind::InvalidInput,
            format!("NOTIFY_SOCKET is {name:?}; allowed: an absolute path, or @ and a name"),
        )),
    }
}

fn watchdog(variable: impl Fn(&str) -> Option<OsString>) -> Option<Duration> {
    let number = |name| variable(name)?.to_str()?.parse::<u64>().ok();
    // The process id says for which process of a service the time is meant.
    let ours = match variable("WATCHDOG_PID") {
        Some(_) => number("WATCHDOG_PID") == Some(u64::from(std::process::id())),
        None => true,
    };
    let time = number("WATCHDOG_USEC").filter(|time| ours && *time > 0)?;
    Some(Duration::from_micros(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager(variables: &[(&str, &str)]) -> io::Result<Option<ServiceManager>> {
        ServiceManager::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        })
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let len = socket.recv(&mut buffer).expect("a message is there");
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    #[test]
    fn messages_reach_a_socket_with_a_path_and_an_abstract_one() {
        let name = format!("lustrine-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let at_path = UnixDatagram::bind(&path).expect("a socket with a path");
        let abstract_address = SocketAddr::from_abstract_name(&name).expect("a short name");
        let at_name = UnixDatagram::bind_addr(&abstract_address).expect("an abstract socket");
        let path = path.to_str().expect("a path of text").to_owned();
        for (socket, address) in [(at_path, path.clone()), (at_name, format!("@{name}"))] {
            let manager = manager(&[("NOTIFY_SOCKET", &address)]).expect("usable").expect("named");
            for (state, text) in [
                (ServiceState::Ready("1 net\n2 CPTs"), "READY=1\nSTATUS=1 net 2 CPTs"),
                (ServiceState::Alive, "WATCHDOG=1"),
                (ServiceState::Stopping, "STOPPING=1"),
            ] {
                manager.notify(state).expect("it is received");
                assert_eq!(received(&socket), text);
            }
            drop(socket);
            assert!(address.starts_with('/') || manager.notify(ServiceState::Alive).is_err());
        }
        std::fs::remove_file(path).expect("the test's own file");
    }

    #[test]
    fn the_environment_says_who_listens_and_who_is_watched() {
        assert!(manager(&[]).expect("no error").is_none());
        assert!(manager(&[("NOTIFY_SOCKET", "")]).expect("no error").is_none());
        let error = manager(&[("NOTIFY_SOCKET", "vsock:2:1")]).expect_err("no Unix socket");
        assert!(error.to_string().contains("an absolute path"), "{error}");

        let own = std::process::id().to_string();
        let watched = |variables: &[(&str, &str)]| {
            let all = [&[("NOTIFY_SOCKET", "/nowhere")], variables].concat();
            manager(&all).expect("usable").expect("named").watchdog()
        };
        let half = Some(Duration::from_millis(500));
        assert_eq!(watched(&[("WATCHDOG_USEC", "500000")]), half);
        assert_eq!(watched(&[("WATCHDOG_USEC", "500000"), ("WATCHDOG_PID", &own)]), half);
        assert_eq!(watched(&[("WATCHDOG_USEC", "500000"), ("WATCHDOG_PID", "1")]), None);
        assert_eq!(watched(&[("WATCHDOG_USEC", "500000"), ("WATCHDOG_PID", "x")]), None);
        assert_eq!(watched(&[("WATCHDOG_USEC", "0")]), None);
        assert_eq!(watched(&[]), None);
    }
}
