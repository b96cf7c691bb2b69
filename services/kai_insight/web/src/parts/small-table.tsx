/** A table of few rows, all of which are in the document. */

import type { ComponentChildren, JSX } from "preact";

export interface Head {
  title: string;
  numeric?: boolean;
}

export function SmallTable(props: {
  label: string;
  heads: readonly Head[];
  children: ComponentChildren;
}): JSX.Element {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={props.label}>
      <table class="table small-table">
        <thead>
          <tr>
            {props.heads.map(({ title, numeric }) => (
              <th key={title} scope="col" class={numeric ? "number" : ""}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </div>
  );
}
