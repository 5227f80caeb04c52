//! Roles, and the union of several roles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pythia::GraphRules;

use super::config::{RoleConfig, RoleLimits};
use crate::config::Limits;
use crate::protocol::parameters::RequestLimits;

/// Rights of a user on a dataset.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// The graphs that queries see.
    pub(crate) read: GraphRules,
    /// The graphs that updates may change. They are all readable too.
    pub(crate) write: GraphRules,
    /// True if administration is allowed.
    pub(crate) admin: bool,
}

/// A role whose configuration was checked.
#[derive(Debug)]
pub(super) struct Role {
    /// The datasets that the role is for; `None` is all.
    datasets: Option<BTreeSet<String>>,
    access: Access,
    limits: RoleLimits,
}

/// The configured roles.
#[derive(Debug, Default)]
pub(super) struct Roles {
    by_name: BTreeMap<String, Arc<Role>>,
}

impl Access {
    pub(crate) fn all() -> Self {
        Self {
            read: GraphRules::all(),
            write: GraphRules::all(),
            admin: true,
        }
    }

    pub(crate) fn none() -> Self {
        Self {
            read: GraphRules::none(),
            write: GraphRules::none(),
            admin: false,
        }
    }

    /// Returns whether nothing at all is allowed.
    pub(crate) fn is_none(&self) -> bool {
        !self.admin && self.read.is_none() && self.write.is_none()
    }

    /// Returns the union of what the roles allow.
    pub(super) fn of(roles: &[Arc<Role>], dataset: &str) -> Self {
        let mut matching = roles.iter().filter(|role| role.is_for(dataset));
        let Some(first) = matching.next() else {
            return Self::none();
        };
        let first = first.access.clone();
        matching.fold(first, |all, role| Self {
            read: all.read.union(&role.access.read),
            write: all.write.union(&role.access.write),
            admin: all.admin || role.access.admin,
        })
    }
}

impl RequestLimits {
    /// Returns the highest value of each limit. A role that does not set a limit has the server's.
    pub(super) fn of_roles(roles: &[Arc<Role>], dataset: &str, server: &Limits) -> Self {
        let server = Self::of(server);
        let matching = roles.iter().filter(|role| role.is_for(dataset));
        let limits = matching.map(|role| role.limits(&server));
        limits.reduce(Self::highest).unwrap_or(server)
    }
}

impl Role {
    fn limits(&self, server: &RequestLimits) -> RequestLimits {
        let own = &self.limits;
        RequestLimits {
            timeout: own.timeout.unwrap_or(server.timeout),
            memory_bytes: own.query_memory_bytes.or(server.memory_bytes),
            rows: own.rows.or(server.rows),
            requests_per_second: own.requests_per_second,
        }
    }

    fn of(config: &RoleConfig) -> Result<Self, String> {
        let wrong = |message: String| format!("role {}: {message}", config.name);
        let read = GraphRules::parse(&config.read).map_err(wrong)?;
        let write = GraphRules::parse(&config.write).map_err(wrong)?;
        let all = config.datasets.iter().any(|name| name == "*");
        let limits = config.limits.clone();
        if limits.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(wrong(
                "limits.timeout is 0, so no request could be answered".to_owned(),
            ));
        }
        if limits.requests_per_second == Some(0) {
            let message = "limits.requests_per_second is 0, so no request could be answered";
            return Err(wrong(message.to_owned()));
        }
        Ok(Self {
            datasets: (!all).then(|| config.datasets.iter().cloned().collect()),
            access: Access {
                // Counts of added quads would reveal what is in a graph that is writable but not readable.
                read: read.union(&write),
                write,
                admin: config.admin,
            },
            limits,
        })
    }

    fn is_for(&self, dataset: &str) -> bool {
        let datasets = self.datasets.as_ref();
        datasets.is_none_or(|datasets| datasets.contains(dataset))
    }
}

impl Roles {
    pub(super) fn new(configs: &[RoleConfig]) -> Result<Self, String> {
        let mut roles = Self::default();
        for config in configs {
            let role = Arc::new(Role::of(config)?);
            if roles.by_name.insert(config.name.clone(), role).is_some() {
                return Err(format!("duplicate role {}", config.name));
            }
        }
        Ok(roles)
    }

    /// Returns the roles with these names. Errors name their owner, `whose`, if a role does not exist.
    pub(super) fn named(&self, names: &[String], whose: &str) -> Result<Arc<[Arc<Role>]>, String> {
        let role = |name: &String| {
            let role = self.by_name.get(name).cloned();
            role.ok_or_else(|| format!("{whose}: there is no role {name}"))
        };
        names.iter().map(role).collect()
    }

    /// Returns the roles with these names; names without a role are ignored.
    pub(super) fn known(&self, names: &[&str]) -> Arc<[Arc<Role>]> {
        let roles = names.iter().filter_map(|name| self.by_name.get(*name));
        roles.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdf::{GraphNameRef, NamedNodeRef};

    fn role(name: &str, datasets: &[&str], read: &[&str], write: &[&str]) -> RoleConfig {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        RoleConfig {
            name: name.to_owned(),
            datasets: owned(datasets),
            read: owned(read),
            write: owned(write),
            ..RoleConfig::default()
        }
    }

    #[test]
    fn limits_of_roles_take_the_place_of_the_servers_and_the_highest_counts() {
        let with = |name: &str, limits: RoleLimits| RoleConfig {
            limits,
            ..role(name, &["*"], &["default"], &[])
        };
        let seconds = |seconds| Some(std::time::Duration::from_secs(seconds));
        let roles = Roles::new(&[
            with(
                "public",
                RoleLimits {
                    timeout: seconds(5),
                    query_memory_bytes: Some(1 << 20),
                    rows: Some(100),
                    requests_per_second: Some(2),
                },
            ),
            with(
                "trusted",
                RoleLimits {
                    timeout: seconds(600),
                    ..RoleLimits::default()
                },
            ),
            with("usual", RoleLimits::default()),
            with(
                "more",
                RoleLimits {
                    rows: Some(1000),
                    requests_per_second: Some(5),
                    timeout: seconds(1),
                    query_memory_bytes: Some(1),
                },
            ),
        ])
        .expect("right");
        let server = Limits {
            rows: Some(500),
            ..Limits::default()
        };
        let of = |names: &[&str]| {
            let limits = RequestLimits::of_roles(&roles.known(names), "ds", &server);
            let RequestLimits {
                timeout,
                memory_bytes,
                rows,
                requests_per_second,
            } = limits;
            (timeout.as_secs(), memory_bytes, rows, requests_per_second)
        };
        assert_eq!(of(&["public"]), (5, Some(1 << 20), Some(100), Some(2)));
        assert_eq!(of(&["trusted"]), (600, None, Some(500), None));
        assert_eq!(of(&["usual"]), (60, None, Some(500), None));
        assert_eq!(of(&["public", "usual"]), (60, None, Some(500), None));
        assert_eq!(
            of(&["public", "more"]),
            (5, Some(1 << 20), Some(1000), Some(5))
        );
        assert_eq!(of(&[]), (60, None, Some(500), None));
        let never = RoleLimits {
            requests_per_second: Some(0),
            ..RoleLimits::default()
        };
        let wrong = Roles::new(&[with("never", never)]).expect_err("nobody could ask");
        assert!(
            wrong.contains("role never: limits.requests_per_second"),
            "{wrong}"
        );
    }

    #[test]
    fn roles_of_a_dataset_add_up_and_those_of_others_do_not() {
        let roles = Roles::new(&[
            role("reader", &["a", "b"], &["default"], &[]),
            role("writer", &["b"], &[], &["http://e/w*"]),
            role("all", &["*"], &["http://e/x"], &[]),
        ])
        .expect("right");
        let both = ["reader".to_owned(), "writer".to_owned()];
        let both = roles.named(&both, "me").expect("there");
        let graph = |iri| GraphNameRef::NamedNode(NamedNodeRef::new_unchecked(iri));
        let b = Access::of(&both, "b");
        assert!(b.read.allows(GraphNameRef::DefaultGraph));
        assert!(b.read.allows(graph("http://e/w1")), "writable is readable");
        assert!(b.write.allows(graph("http://e/w1")));
        assert!(!b.write.allows(GraphNameRef::DefaultGraph));
        let a = Access::of(&both, "a");
        assert!(a.write.is_none() && !a.read.allows(graph("http://e/w1")));
        assert!(Access::of(&both, "c").is_none());
        let all = roles.known(&["all", "nobody"]);
        assert!(Access::of(&all, "c").read.allows(graph("http://e/x")));
    }

    #[test]
    fn roles_that_make_no_sense_are_refused() {
        let double = [role("r", &[], &[], &[]), role("r", &[], &[], &[])];
        assert!(
            Roles::new(&double)
                .expect_err("two")
                .contains("duplicate role r")
        );
        let wrong = [role("r", &[], &["g1"], &[])];
        assert!(
            Roles::new(&wrong)
                .expect_err("no graph")
                .contains("role r: \"g1\"")
        );
        let missing = Roles::default().named(&["r".to_owned()], "user u");
        assert_eq!(missing.expect_err("none"), "user u: there is no role r");
    }
}
