//! How an operator is described, in words.

use super::WindowOperatorBuilder;

impl WindowOperatorBuilder {
    /// A line for everything that the meaning of a saved state depends on; see
    /// [`snapshot`](crate::WindowOperator::snapshot) for what it does not depend on.
    pub(super) fn describe(&self) -> String {
        let mut lines = self.input.describe();
        lines.extend(self.window.as_ref().map(|window| format!("window: {window}")));
        lines.push(format!("allowed_lateness: {}", self.allowed_lateness));
        lines.push(format!("late_firing: {:?}", self.late_firing));
        lines.push(format!("result_mode: {:?}", self.result_mode));
        lines.push(format!("trigger: {}", self.trigger));
        lines.extend(self.evictor.as_ref().map(|evictor| format!("evictor: {evictor}")));
        lines.extend(self.function.as_ref().map(|function| format!("process: {function:?}")));
        lines.extend(self.quiet_timeout.map(|timeout| format!("flush_after_quiet: {timeout}")));
        // firings are counted key by key, and then so are windows
        lines.push(format!("firing_number_column: {}", self.columns.number));
        for (number, aggregate) in self.aggregates.iter().enumerate() {
            let columns = aggregate.column().into_iter().chain(aggregate.by());
            let columns: Vec<_> = columns.map(|column| format!("{column:?}")).collect();
            let function = format!("{:?}({})", aggregate.function, columns.join(", "));
            lines.push(format!("aggregate {number}: {:?} = {function}", aggregate.name()));
        }
        lines.push(format!("seed: {}", self.seed));
        // what a user's own functions say of themselves may be of several lines
        lines.iter().map(|line| line.replace('\n', " ")).collect::<Vec<_>>().join("\n")
    }
}
