//! The conformance suite of drivers: what the core expects of each, as tests.
//!
//! The seam between core and driver is described in `lnet::lnd` (what they say to each other) and
//! in `partition::Driver` (what an event loop does with a driver). This crate states it as tests
//! that are written once and run with every driver: over socklnd on the simulator's byte streams,
//! over the simulator's message driver, and over both as a pair. `docs/drivers.md` says how to
//! write a driver and run the suite with it.
//!
//! The author of a driver writes a [`Testbed`]: a few nodes in virtual time, each of which calls
//! [`turn`] with its driver and a [`ModelCore`]. One line then makes a test of each case:
//!
//! ```ignore
//! lustrine_lnd_testing::conformance!(MyTestbed);
//! ```
//!
//! The model panics at the first call that breaks a rule: a message that ends twice, or arrives
//! before its link is up, or after everything was closed; and it frees the memory of a message as
//! soon as the message has ended, so that the testbed's memory finds a driver that still uses it.
#![forbid(unsafe_code)]

pub mod cases;
mod model;
mod testbed;
mod world;

pub use model::{Ended, LinkReport, ModelCore, PlannedVerdict, Received, key_of};
pub use testbed::{Command, DriverView, Input, NETS, Setup, StopKind, Testbed, nid_of, turn};

/// Makes a test of each case that every driver has to pass, for a testbed.
#[macro_export]
macro_rules! conformance {
    ($bed:ty) => {
        $crate::run_cases!(
            $bed,
            messages,
            [
                messages_of_all_types_and_lengths_arrive_whole,
                headers_arrive_as_they_were_sent,
                messages_keep_their_order,
                payloads_are_truncated_to_their_spans,
                unwanted_payloads_are_discarded,
                a_flood_in_both_directions_arrives,
                memory_is_free_when_a_message_has_ended,
                a_driver_at_rest_has_no_work,
            ]
        );
        $crate::run_cases!(
            $bed,
            parking,
            [
                a_parked_message_is_stored_when_it_is_resumed,
                a_parked_message_can_be_dropped_when_it_is_resumed,
                a_parked_message_is_forgotten_with_its_connection,
                a_decision_about_a_lost_message_ends_it,
                a_refused_message_closes_the_connections_of_its_sender,
            ]
        );
        $crate::run_cases!(
            $bed,
            links,
            [
                a_link_is_up_before_the_first_message,
                two_nodes_that_connect_to_each_other_at_once_have_one_link,
                a_link_is_down_once_when_the_peer_is_killed,
                messages_to_a_silent_peer_end,
                a_message_that_waits_fails_at_its_deadline,
                a_message_to_a_nid_without_a_node_fails,
                a_peer_that_has_restarted_is_reported,
                a_peer_that_has_restarted_is_reported_by_the_node_that_connects,
                a_peer_that_the_core_closes_fails_what_waits,
                a_driver_reports_its_peers_and_its_counters,
            ]
        );
        $crate::run_cases!(
            $bed,
            changes,
            [
                an_interface_that_is_added_carries_messages,
                an_interface_that_is_removed_takes_its_messages_with_it,
                closing_nids_closes_these_peers_only,
                tunables_count_from_when_they_are_set,
                messages_pass_while_the_number_of_connections_changes,
                a_driver_that_is_closed_does_no_more_work,
            ]
        );
    };
}

/// Makes a test of each case for drivers that have userland peers.
#[macro_export]
macro_rules! conformance_with_userland_peers {
    ($bed:ty) => {
        $crate::run_cases!(
            $bed,
            userland,
            [
                a_userland_peer_is_reached_over_its_own_connection,
                a_userland_peer_that_has_gone_is_not_reached,
            ]
        );
    };
}

/// Makes a test of each case for drivers that hand peers over to their home.
#[macro_export]
macro_rules! conformance_with_handoffs {
    ($bed:ty) => {
        $crate::run_cases!($bed, handoff, [a_peer_is_handed_to_its_home]);
    };
}

/// Makes a test of each case for drivers that answer GETs in place.
#[macro_export]
macro_rules! conformance_with_replies_in_place {
    ($bed:ty) => {
        $crate::run_cases!(
            $bed,
            replies,
            [a_get_is_answered_in_place, a_reply_in_place_to_a_node_that_dies_ends,]
        );
    };
}

/// Makes tests of cases in a module of that name.
#[doc(hidden)]
#[macro_export]
macro_rules! run_cases {
    ($bed:ty, $module:ident, [$($case:ident),* $(,)?]) => {
        mod $module {
            #[allow(unused_imports, reason = "the testbed may be named by a path")]
            use super::*;

            $(#[test]
            fn $case() {
                $crate::cases::$module::$case::<$bed>();
            })*
        }
    };
}
