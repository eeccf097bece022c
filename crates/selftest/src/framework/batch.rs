//! Batches and the test instances in them [LST-27].

use lustrine_lnet::time::Time;

use crate::cpt_message::InstanceId;
use crate::errno;
use crate::limits::TESTS_MAX;

/// A list of test instances in order of arrival.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) id: u64,
    /// When it is stopped unless it has ended.
    pub(super) stops_at: Time,
    tests: Vec<Instance>,
}

/// One TEST request's outcome.
#[derive(Debug)]
enum Instance {
    /// This node answers; nothing of it can be active.
    Server,
    /// This node sends.
    Client(Client),
}

/// A client test instance.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) instance: InstanceId,
    /// The partitions that have units of it.
    pub(super) cpts: Vec<u16>,
    pub(super) units: u32,
    /// Of them, active.
    pub(super) active: u32,
}

impl Batch {
    pub(super) fn new(id: u64) -> Batch {
        Batch { id, stops_at: Time::NEVER, tests: Vec::new() }
    }

    /// Whether no further test fits.
    pub(super) fn is_full(&self) -> bool {
        self.tests.len() >= TESTS_MAX
    }

    pub(super) fn add_server(&mut self) {
        self.tests.push(Instance::Server);
    }

    pub(super) fn add_client(&mut self, client: Client) {
        self.tests.push(Instance::Client(client));
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = &Client> {
        self.tests.iter().filter_map(|test| match test {
            Instance::Client(client) => Some(client),
            Instance::Server => None,
        })
    }

    fn clients_mut(&mut self) -> impl Iterator<Item = &mut Client> {
        self.tests.iter_mut().filter_map(|test| match test {
            Instance::Client(client) => Some(client),
            Instance::Server => None,
        })
    }

    pub(super) fn is_active(&self) -> bool {
        self.clients().any(|client| client.active > 0)
    }

    pub(super) fn units(&self) -> u32 {
        self.clients().map(|client| client.units).sum()
    }

    /// Marks every client's units as active; the caller starts them.
    pub(super) fn activate(&mut self) {
        for client in self.clients_mut() {
            client.active = client.units;
        }
    }

    /// Notes that units of an instance ended; `false` when it is none of this batch.
    pub(super) fn ended(&mut self, instance: InstanceId, units: u32) -> bool {
        let Some(client) = self.clients_mut().find(|client| client.instance == instance) else {
            return false;
        };
        client.active = client.active.saturating_sub(units);
        true
    }

    /// The client of the test with this number, counted from 1.
    ///
    /// # Errors
    /// The status for a number that is none of a client's test.
    pub(super) fn client(&self, number: u32) -> Result<&Client, u32> {
        let at = (number as usize).checked_sub(1).ok_or(errno::EINVAL)?;
        match self.tests.get(at) {
            Some(Instance::Client(client)) => Ok(client),
            Some(Instance::Server) | None => Err(errno::ENOENT),
        }
    }

    /// Answers a query: index 0 is the number of active client instances, index n that of active
    /// units of the n-th instance.
    ///
    /// # Errors
    /// The status for an index that is negative or past the end.
    pub(super) fn query(&self, index: i32) -> Result<u32, u32> {
        if index == 0 {
            return Ok(self.clients().filter(|client| client.active > 0).count() as u32);
        }
        let at = usize::try_from(index).map_err(|_| errno::EINVAL)? - 1;
        match self.tests.get(at) {
            Some(Instance::Client(client)) => Ok(client.active),
            Some(Instance::Server) => Ok(0),
            None => Err(errno::ENOENT),
        }
    }
}
