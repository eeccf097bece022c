//! The conformance suite with the drivers of this repository: socklnd over byte streams, the
//! message driver, and both in one partition, with their interfaces in either order.

mod kinds;
mod links;
mod nodes;
mod testbed;

use kinds::{MessagesThenStreams, OnMessages, OnMessagesInPlace, OnStreams, StreamsThenMessages};
use testbed::Bed;

mod streams {
    use super::*;

    lustrine_lnd_testing::conformance!(Bed<OnStreams>);
    lustrine_lnd_testing::conformance_with_userland_peers!(Bed<OnStreams>);
    lustrine_lnd_testing::conformance_with_handoffs!(Bed<OnStreams>);
}

mod whole_messages {
    use super::*;

    lustrine_lnd_testing::conformance!(Bed<OnMessages>);
}

mod whole_messages_in_place {
    use super::*;

    lustrine_lnd_testing::conformance!(Bed<OnMessagesInPlace>);
    lustrine_lnd_testing::conformance_with_replies_in_place!(Bed<OnMessagesInPlace>);
}

/// The first interface of each node belongs to socklnd, the others to the message driver.
mod streams_then_messages {
    use super::*;

    lustrine_lnd_testing::conformance!(Bed<StreamsThenMessages>);
    lustrine_lnd_testing::conformance_with_userland_peers!(Bed<StreamsThenMessages>);
    lustrine_lnd_testing::conformance_with_handoffs!(Bed<StreamsThenMessages>);
}

/// The first interface of each node belongs to the message driver, the others to socklnd.
mod messages_then_streams {
    use super::*;

    lustrine_lnd_testing::conformance!(Bed<MessagesThenStreams>);
}
