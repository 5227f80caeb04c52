// Progress of a running query.

import { useEffect, useState } from "preact/hooks";
import { duration, plural } from "../components/number.ts";
import { PlanTree } from "./plan.tsx";
import type { Run } from "./run.ts";

export function Progress({ run }: { run: Run }) {
  const { progress } = run;
  return (
    <div class="progress">
      <p>
        <span class="pulse" aria-hidden="true" />
        <Elapsed since={run.started} />
        {progress?.state === "queued" && " · queued"}
        {progress?.state === "running" && progress.rows !== null && ` · ${plural(progress.rows, "row")}`}
      </p>
      {progress?.plan && <PlanTree plan={progress.plan} running />}
    </div>
  );
}

function Elapsed({ since }: { since: number }) {
  const [now, setNow] = useState(performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), 100);
    return () => clearInterval(timer);
  }, []);
  return <span class="numbers">{duration(Math.max(0, now - since))}</span>;
}
