//! Doubly linked lists over small integers, without separate memory per list.

const NONE: u32 = u32::MAX;

/// A family of lists of nodes `0..`. A node is in at most one list of the family. All operations
/// take constant time.
#[derive(Debug)]
pub(crate) struct Chains {
    ends: Vec<Ends>,
    links: Vec<Link>,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    front: u32,
    back: u32,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    prev: u32,
    next: u32,
}

impl Chains {
    /// `lists` empty lists.
    pub(crate) fn new(lists: usize) -> Self {
        Chains { ends: vec![Ends { front: NONE, back: NONE }; lists], links: Vec::new() }
    }

    /// Makes room for node `node`.
    pub(crate) fn admit(&mut self, node: u32) {
        let wanted = node as usize + 1;
        if self.links.len() < wanted {
            self.links.resize(wanted, Link { prev: NONE, next: NONE });
        }
    }

    /// First node of `list`.
    pub(crate) fn front(&self, list: usize) -> Option<u32> {
        some(self.ends[list].front)
    }

    /// Last node of `list`.
    pub(crate) fn back(&self, list: usize) -> Option<u32> {
        some(self.ends[list].back)
    }

    /// Puts `node`, which is in no list, at the front of `list`.
    pub(crate) fn push_front(&mut self, list: usize, node: u32) {
        let old = self.ends[list].front;
        self.links[node as usize] = Link { prev: NONE, next: old };
        self.ends[list].front = node;
        match some(old) {
            Some(old) => self.links[old as usize].prev = node,
            None => self.ends[list].back = node,
        }
    }

    /// Takes `node`, which is in `list`, out of it.
    pub(crate) fn remove(&mut self, list: usize, node: u32) {
        let Link { prev, next } = self.links[node as usize];
        match some(prev) {
            Some(prev) => self.links[prev as usize].next = next,
            None => {
                assert_eq!(self.ends[list].front, node, "node {node} is not in list {list}");
                self.ends[list].front = next;
            }
        }
        match some(next) {
            Some(next) => self.links[next as usize].prev = prev,
            None => {
                assert_eq!(self.ends[list].back, node, "node {node} is not in list {list}");
                self.ends[list].back = prev;
            }
        }
    }
}

fn some(node: u32) -> Option<u32> {
    (node != NONE).then_some(node)
}

#[cfg(test)]
mod tests;
