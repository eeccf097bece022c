//! The services that are registered with a partition.

use core::any::Any;
use core::fmt;
use core::marker::PhantomData;

use lustrine_lnet::event::{Event, Stray};
use lustrine_lnet::md::Owner;
use lustrine_lnet::service::{Service, Turn};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_wire::nid::ProcessId;

/// Names a registered service of type `S`.
pub struct ServiceHandle<S> {
    owner: Owner,
    service: PhantomData<fn() -> S>,
}

impl<S> ServiceHandle<S> {
    /// The owner of the service's descriptors.
    pub fn owner(self) -> Owner {
        self.owner
    }
}

impl<S> Clone for ServiceHandle<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for ServiceHandle<S> {}

impl<S> fmt::Debug for ServiceHandle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServiceHandle").field(&self.owner.0).finish()
    }
}

/// All registered services, in the order in which they are called.
#[derive(Default)]
pub(crate) struct Services {
    slots: Vec<Slot>,
    /// Events for services that are no longer registered, and messages that no service took.
    undelivered: u64,
}

/// A place for one service after another. The owner of a service is made of the place and the
/// number of services that had it before, so that events of one do not reach the next.
#[derive(Default)]
struct Slot {
    used: u16,
    service: Option<Box<dyn Service>>,
    /// Whether the user of the service has gone: it is taken out when it is quiet.
    retired: bool,
}

impl Slot {
    /// Called for a slot that is retired.
    #[cold]
    #[inline(never)]
    fn take_out_if_quiet(&mut self) {
        if self.service.as_ref().is_some_and(|service| service.is_quiet()) {
            self.service = None;
        }
    }
}

/// Bits of an owner that say which slot it is.
const SLOT_BITS: u32 = 16;

/// Most services at once. Slot 0 stands for the core itself.
const SLOTS_MAX: usize = (1 << SLOT_BITS) - 1;

impl Services {
    /// Registers a service, in the first free slot.
    ///
    /// # Panics
    /// When there are 65,535 services already.
    pub(crate) fn register<S: Service>(
        &mut self,
        make: impl FnOnce(Owner) -> S,
    ) -> ServiceHandle<S> {
        let free = self.slots.iter().position(|slot| slot.service.is_none());
        let index = free.unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        assert!(index < SLOTS_MAX, "{index} services are registered");
        let slot = &mut self.slots[index];
        slot.used = slot.used.wrapping_add(1);
        slot.retired = false;
        let owner = owner_of(index, slot.used);
        slot.service = Some(Box::new(make(owner)));
        ServiceHandle { owner, service: PhantomData }
    }

    pub(crate) fn unregister<S: Service>(&mut self, handle: ServiceHandle<S>) -> Option<Box<S>> {
        let service: Box<dyn Any> = self.slot_mut(handle.owner)?.service.take()?;
        Some(service.downcast().expect("a handle has the type of its service"))
    }

    /// Has a service end what it does, and takes it out when it is quiet.
    pub(crate) fn retire<S: Service>(&mut self, turn: &mut Turn<'_>, handle: ServiceHandle<S>) {
        let Some(slot) = self.slot_mut(handle.owner) else { return };
        let Some(service) = &mut slot.service else { return };
        if !core::mem::replace(&mut slot.retired, true) {
            service.retire(turn);
        }
        slot.take_out_if_quiet();
    }

    /// Offers a message to all services but the one that received it.
    pub(crate) fn offer(&mut self, turn: &mut Turn<'_>, stray: &Stray) {
        let receiver = index_of(stray.event.owner);
        let others = self.slots.iter_mut().enumerate();
        let others = others.filter(|(index, _)| Some(*index) != receiver);
        let mut services = others.filter_map(|(_, slot)| slot.service.as_deref_mut());
        if services.any(|service| service.on_stray(turn, stray)) {
            return;
        }
        self.undelivered += 1;
        let slot = self.slot_mut(stray.event.owner);
        if let Some(service) = slot.and_then(|slot| slot.service.as_deref_mut()) {
            service.on_unclaimed(turn, stray);
        }
    }

    pub(crate) fn get<S: Service>(&self, handle: ServiceHandle<S>) -> Option<&S> {
        let index = index_of(handle.owner)?;
        let slot = self.slots.get(index).filter(|slot| is_of(slot, index, handle.owner))?;
        let service: &dyn Any = slot.service.as_deref()?;
        service.downcast_ref()
    }

    pub(crate) fn get_mut<S: Service>(&mut self, handle: ServiceHandle<S>) -> Option<&mut S> {
        let service: &mut dyn Any = self.slot_mut(handle.owner)?.service.as_deref_mut()?;
        service.downcast_mut()
    }

    /// Hands an event to the service that owns its descriptor.
    #[inline]
    pub(crate) fn deliver(&mut self, turn: &mut Turn<'_>, event: &Event) {
        let slot = self.slot_mut(event.owner);
        match slot.and_then(|slot| slot.service.as_deref_mut()) {
            Some(service) => service.on_event(turn, event),
            None => self.undelivered += 1,
        }
    }

    pub(crate) fn peer_down(&mut self, turn: &mut Turn<'_>, peer: &ProcessId, status: Status) {
        for service in self.all_mut() {
            service.on_peer_down(turn, peer, status);
        }
    }

    #[inline]
    pub(crate) fn drive(&mut self, turn: &mut Turn<'_>) {
        for slot in &mut self.slots {
            if let Some(service) = &mut slot.service {
                service.drive(turn);
                if slot.retired {
                    slot.take_out_if_quiet();
                }
            }
        }
    }

    #[inline]
    pub(crate) fn next_deadline(&self) -> Time {
        self.all().map(Service::next_deadline).min().unwrap_or(Time::NEVER)
    }

    pub(crate) fn undelivered(&self) -> u64 {
        self.undelivered
    }

    #[inline]
    fn all(&self) -> impl Iterator<Item = &dyn Service> {
        self.slots.iter().filter_map(|slot| slot.service.as_deref())
    }

    #[inline]
    fn all_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Service>> {
        self.slots.iter_mut().filter_map(|slot| slot.service.as_mut())
    }

    #[inline]
    fn slot_mut(&mut self, owner: Owner) -> Option<&mut Slot> {
        let index = index_of(owner)?;
        self.slots.get_mut(index).filter(|slot| is_of(slot, index, owner))
    }
}

#[inline]
fn owner_of(index: usize, used: u16) -> Owner {
    Owner((u32::from(used) << SLOT_BITS) | (index as u32 + 1))
}

#[inline]
fn index_of(owner: Owner) -> Option<usize> {
    (owner.0 as usize & SLOTS_MAX).checked_sub(1)
}

#[inline]
fn is_of(slot: &Slot, index: usize, owner: Owner) -> bool {
    owner_of(index, slot.used) == owner
}
