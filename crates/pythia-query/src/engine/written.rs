//! Plans as bytes, for other processes with the same store.

use std::sync::Arc;

use pythia_exec::exec::node::plan_of;
use pythia_exec::plan::written::{WrittenPlan, from_bytes, to_bytes};
use pythia_store::Snapshot;
use serde::{Deserialize, Serialize};

use super::{Engine, Form, Planned, PreparedQuery, QueryOptions, choices, evaluation};
use pythia_exec::error::QueryError;

/// A query's plan and its form.
#[derive(Deserialize, Serialize)]
struct WrittenQuery {
    form: Form,
    plan: WrittenPlan,
}

impl PreparedQuery {
    /// Returns the snapshot that the query was planned for.
    pub fn snapshot(&self) -> &Snapshot {
        &self.context.snapshot
    }

    /// Returns the query's plan as bytes for [`Engine::prepare_written`]. It contains the terms that the plan
    /// needs and the store does not have, but no solutions.
    pub fn write(&self) -> Result<Vec<u8>, QueryError> {
        let context = &self.context;
        let plan = plan_of(self.plan.as_ref())?;
        to_bytes(&WrittenQuery {
            form: self.form.clone(),
            plan: WrittenPlan::new(plan, &context.dataset, &context.evaluation),
        })
    }
}

impl Engine {
    /// Prepares a query whose plan was written in another process. The snapshot must be of the state that the
    /// query was planned for. The graphs that are visible, and the result of `NOW()`, are those of the plan; custom
    /// functions, endpoints and limits are those of the options. The query's time limit starts here.
    ///
    /// # Errors
    /// [`QueryError::Plan`] if the bytes are not a plan of this version.
    pub fn prepare_written(
        &self,
        snapshot: &Snapshot,
        plan: &[u8],
        options: &QueryOptions,
    ) -> Result<PreparedQuery, QueryError> {
        let WrittenQuery { form, plan } = from_bytes(plan)?;
        let visible = plan.dataset.visible.as_ref();
        let governor = self.governor(options);
        let evaluation = evaluation(governor, snapshot, visible, options)
            .with_now(plan.now()?)
            .with_base_iri(plan.base_iri()?)
            .with_terms(plan.terms)?;
        let dataset = Arc::new(plan.dataset);
        let planned = Planned {
            plan: plan.plan,
            form,
            choices: choices(options),
        };
        self.ready(planned, snapshot, evaluation, dataset, options)
    }
}
