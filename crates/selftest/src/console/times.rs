//! How long a console waits for nodes.

use lustrine_lnet::time::Nanos;

/// How long nodes have to carry out a request, and to answer that they are still there.
pub(super) const ACTION: Nanos = Nanos::from_secs(30);

/// Shortest time that is waited for an answer to a question, and the longest to most of them.
pub(super) const QUESTION_MIN: Nanos = Nanos::from_secs(3);
pub(super) const QUESTION_MAX: Nanos = Nanos::from_secs(30);

/// How long a node that is down has, where one that answers has [`ACTION`].
pub(super) const DOWN_ACTION: Nanos = QUESTION_MIN;

/// Longest time that an answer about a batch is waited for.
pub(super) const QUERY_MAX: Nanos = Nanos::from_secs(3600);

/// A node that leaves an RPC unanswered for so long is taken to be down [LST-20].
pub(super) const DOWN_AFTER: Nanos = Nanos::from_secs(6);

/// The longest time that the end of a session waits for tests: a kernel client gives up an RPC
/// after 64 s.
pub(super) const STOPS_MAX: Nanos = Nanos::from_secs(70);

/// How long clients have to answer while a session ends.
pub(super) const ANSWER: Nanos = DOWN_AFTER;

/// The longest time that the end of a session takes. The last stop and the last query can begin
/// just before the tests are waited for no longer.
pub(super) const END_MAX: Nanos = Nanos(STOPS_MAX.0 + 2 * ANSWER.0 + ACTION.0);
