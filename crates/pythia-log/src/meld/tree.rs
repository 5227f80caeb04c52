//! A binary search tree that never changes: a change makes a new tree, which shares all nodes beside the changed paths.
//!
//! It is an AVL tree, so keys cannot make it deep. Each node also has the last change below it, so a search for later
//! changes skips everything that is older. A removed item stays, without a value, until [`Tree::without`]: its removal is
//! a change that others may conflict with.

use std::cmp::Ordering;
use std::sync::Arc;

use super::intention::{Range, Write};
use super::{Key, Value};
use crate::Position;

/// An immutable tree of items. A clone is one pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree(Link);

type Link = Option<Arc<Node>>;

#[derive(Debug, PartialEq, Eq)]
struct Node {
    item: Item,
    left: Link,
    right: Link,
    /// The last change of this item and of those below.
    newest: Position,
    /// Nodes on the longest path down, this one included.
    height: u8,
}

/// An item and its last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) key: Key,
    /// `None` if it was removed.
    pub(super) value: Option<Value>,
    /// The intention that wrote it.
    changed: Position,
}

impl Tree {
    /// Returns the item with a key, also if it was removed.
    pub(super) fn find(&self, key: &[u8]) -> Option<&Item> {
        let mut link = &self.0;
        while let Some(node) = link {
            link = match key.cmp(&node.item.key) {
                Ordering::Less => &node.left,
                Ordering::Greater => &node.right,
                Ordering::Equal => return Some(&node.item),
            };
        }
        None
    }

    /// Returns the items of a range in order, with those that were removed.
    pub(super) fn items<'a>(&'a self, range: Range<'a>) -> Items<'a> {
        let mut items = Items {
            path: Vec::new(),
            range,
        };
        items.descend(&self.0);
        items
    }

    /// Returns whether an item with one of these keys, which are sorted, was changed at a position or later.
    pub(super) fn is_changed<K>(&self, keys: &[K], key: fn(&K) -> &[u8], since: Position) -> bool {
        is_changed(&self.0, keys, key, since)
    }

    /// Returns whether an item in a range was changed at a position or later.
    pub(super) fn is_range_changed(&self, range: Range<'_>, since: Position) -> bool {
        is_range_changed(&self.0, range, since)
    }

    /// Returns the tree with the writes, which are sorted by key, of the intention at a position.
    pub(super) fn with(&self, writes: &[Write<'_>], position: Position) -> Self {
        Self(with(&self.0, writes, position))
    }

    /// Returns the tree without an item that was removed before a position and not written since.
    pub(super) fn without(&self, key: &[u8], before: Position) -> Self {
        match self.find(key) {
            Some(item) if item.value.is_none() && item.changed < before => {
                Self(without(&self.0, key))
            }
            _ => self.clone(),
        }
    }

    /// Checks order, balance and the last changes, and returns the number of items.
    #[cfg(test)]
    pub(super) fn check(&self) -> usize {
        let keys: Vec<&Key> = self.items(Range::ALL).map(|item| &item.key).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        assert_eq!(check(&self.0), keys.len());
        keys.len()
    }

    /// Returns the addresses of all nodes.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> std::collections::BTreeSet<*const ()> {
        let mut nodes = std::collections::BTreeSet::new();
        let mut links = vec![&self.0];
        while let Some(link) = links.pop() {
            if let Some(node) = link {
                nodes.insert(Arc::as_ptr(node).cast());
                links.extend([&node.left, &node.right]);
            }
        }
        nodes
    }
}

impl Node {
    fn new(left: Link, item: Item, right: Link) -> Arc<Self> {
        let newest = |link: &Link| link.as_ref().map_or(Position(0), |node| node.newest);
        Arc::new(Self {
            newest: item.changed.max(newest(&left)).max(newest(&right)),
            height: 1 + height(&left).max(height(&right)),
            item,
            left,
            right,
        })
    }
}

impl Item {
    fn new(write: &Write<'_>, position: Position) -> Self {
        Self {
            key: write.key.into(),
            value: write.value.map(Into::into),
            changed: position,
        }
    }
}

fn height(link: &Link) -> u8 {
    link.as_ref().map_or(0, |node| node.height)
}

/// Returns the parts of a sorted slice that are before, equal to and after a key.
fn split<'s, K>(
    keys: &'s [K],
    key: fn(&K) -> &[u8],
    at: &[u8],
) -> (&'s [K], Option<&'s K>, &'s [K]) {
    let (before, rest) = keys.split_at(keys.partition_point(|other| key(other) < at));
    match rest.split_first() {
        Some((first, after)) if key(first) == at => (before, Some(first), after),
        _ => (before, None, rest),
    }
}

fn is_changed<K>(link: &Link, keys: &[K], key: fn(&K) -> &[u8], since: Position) -> bool {
    let Some(node) = link.as_ref().filter(|node| node.newest >= since) else {
        return false;
    };
    if keys.is_empty() {
        return false;
    }
    let (before, here, after) = split(keys, key, &node.item.key);
    here.is_some() && node.item.changed >= since
        || is_changed(&node.left, before, key, since)
        || is_changed(&node.right, after, key, since)
}

fn is_range_changed(link: &Link, range: Range<'_>, since: Position) -> bool {
    let Some(node) = link.as_ref().filter(|node| node.newest >= since) else {
        return false;
    };
    let key = &node.item.key;
    let (from, before) = (range.begins_by(key), range.ends_after(key));
    from && before && node.item.changed >= since
        || from && is_range_changed(&node.left, range, since)
        || before && is_range_changed(&node.right, range, since)
}

fn with(link: &Link, writes: &[Write<'_>], position: Position) -> Link {
    if writes.is_empty() {
        return link.clone();
    }
    let Some(node) = link else {
        return balanced(writes, position);
    };
    let (before, here, after) = split(writes, |write| write.key, &node.item.key);
    let item = here.map_or_else(|| node.item.clone(), |write| Item::new(write, position));
    let left = with(&node.left, before, position);
    Some(join(left, item, with(&node.right, after, position)))
}

/// Makes a tree of writes.
fn balanced(writes: &[Write<'_>], position: Position) -> Link {
    let (before, rest) = writes.split_at(writes.len() / 2);
    let (middle, after) = rest.split_first()?;
    let left = balanced(before, position);
    let item = Item::new(middle, position);
    Some(Node::new(left, item, balanced(after, position)))
}

fn without(link: &Link, key: &[u8]) -> Link {
    let node = link.as_ref()?;
    match key.cmp(&node.item.key) {
        Ordering::Less => {
            let left = without(&node.left, key);
            Some(join(left, node.item.clone(), node.right.clone()))
        }
        Ordering::Greater => {
            let right = without(&node.right, key);
            Some(join(node.left.clone(), node.item.clone(), right))
        }
        Ordering::Equal => match &node.right {
            None => node.left.clone(),
            Some(right) => {
                let (first, rest) = split_first(right);
                Some(join(node.left.clone(), first, rest))
            }
        },
    }
}

/// Returns the first item of a tree, and the tree without it.
fn split_first(node: &Arc<Node>) -> (Item, Link) {
    match &node.left {
        None => (node.item.clone(), node.right.clone()),
        Some(left) => {
            let (first, rest) = split_first(left);
            let rest = join(rest, node.item.clone(), node.right.clone());
            (first, Some(rest))
        }
    }
}

/// Makes a tree of two trees of any heights and the item between them.
fn join(left: Link, item: Item, right: Link) -> Arc<Node> {
    match (&left, &right) {
        (Some(higher), _) if higher.height > height(&right) + 1 => {
            let inner = join(higher.right.clone(), item, right);
            balance(higher.left.clone(), higher.item.clone(), Some(inner))
        }
        (_, Some(higher)) if higher.height > height(&left) + 1 => {
            let inner = join(left, item, higher.left.clone());
            balance(Some(inner), higher.item.clone(), higher.right.clone())
        }
        _ => Node::new(left, item, right),
    }
}

/// Makes a tree of two trees, whose heights differ by two at most, and the item between them.
fn balance(left: Link, item: Item, right: Link) -> Arc<Node> {
    let is_higher = |one: &Link, other: &Link| height(one) > height(other) + 1;
    match (&left, &right) {
        (Some(high), _) if is_higher(&left, &right) => {
            let (outer, inner) = (high.left.clone(), high.right.clone());
            match inner {
                Some(inner) if inner.height > height(&outer) => Node::new(
                    Some(Node::new(outer, high.item.clone(), inner.left.clone())),
                    inner.item.clone(),
                    Some(Node::new(inner.right.clone(), item, right)),
                ),
                inner => Node::new(
                    outer,
                    high.item.clone(),
                    Some(Node::new(inner, item, right)),
                ),
            }
        }
        (_, Some(high)) if is_higher(&right, &left) => {
            let (inner, outer) = (high.left.clone(), high.right.clone());
            match inner {
                Some(inner) if inner.height > height(&outer) => Node::new(
                    Some(Node::new(left, item, inner.left.clone())),
                    inner.item.clone(),
                    Some(Node::new(inner.right.clone(), high.item.clone(), outer)),
                ),
                inner => Node::new(Some(Node::new(left, item, inner)), high.item.clone(), outer),
            }
        }
        _ => Node::new(left, item, right),
    }
}

/// An iterator over the items of a range.
pub(super) struct Items<'a> {
    /// Nodes whose item and right side are still to come, the next one last.
    path: Vec<&'a Node>,
    range: Range<'a>,
}

impl<'a> Items<'a> {
    /// Goes down to the first item of the range.
    fn descend(&mut self, mut link: &'a Link) {
        while let Some(node) = link {
            if self.range.begins_by(&node.item.key) {
                self.path.push(node);
                link = &node.left;
            } else {
                link = &node.right;
            }
        }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = &'a Item;

    fn next(&mut self) -> Option<&'a Item> {
        let node = self.path.pop()?;
        if !self.range.ends_after(&node.item.key) {
            self.path.clear();
            return None;
        }
        self.descend(&node.right);
        Some(&node.item)
    }
}

#[cfg(test)]
fn check(link: &Link) -> usize {
    let Some(node) = link else { return 0 };
    let (left, right) = (height(&node.left), height(&node.right));
    assert!(left.abs_diff(right) <= 1, "{left} and {right} are balanced");
    let again = Node::new(node.left.clone(), node.item.clone(), node.right.clone());
    assert_eq!((node.newest, node.height), (again.newest, again.height));
    1 + check(&node.left) + check(&node.right)
}
