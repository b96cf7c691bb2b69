/** A table of any length: only the rows in sight are in the document. Arrow keys go from row to row. */

import type { ComponentChildren, JSX, TargetedKeyboardEvent } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

import { useSize } from "./size";

export interface Column<T> {
  id: string;
  title: string;
  /** Width in pixels; what has none shares the rest. */
  width?: number;
  /** Width in tables of less than 480 pixels. */
  narrow?: number;
  numeric?: boolean;
  /** It is shown in tables that are at least so wide. */
  from?: number;
  cell: (row: T) => ComponentChildren;
}

interface Props<T> {
  label: string;
  columns: readonly Column<T>[];
  /** How many rows there are, and each of them. */
  count: number;
  row: (index: number) => T;
  rowKey: (row: T) => string;
  rowClass?: (row: T) => string;
  /** Where a row leads; it is opened by its first cell. */
  open?: (row: T) => void;
  opened?: string;
  rowHeight?: number;
  sort?: string;
  sorts?: Readonly<Record<string, string>>;
  onSort?: (sort: string) => void;
}

const AROUND = 8;

export function Table<T>(props: Props<T>): JSX.Element {
  const { label, count, row, rowKey, open, opened, rowHeight = 44 } = props;
  const [scroll, size] = useSize<HTMLDivElement>();
  const [top, setTop] = useState(0);
  const wanted = useRef(-1);
  const columns = props.columns.filter((each) => size.width >= (each.from ?? 0));
  const first = Math.max(0, Math.floor(top / rowHeight) - AROUND);
  const last = Math.min(count, Math.ceil((top + Math.max(size.height, 200)) / rowHeight) + AROUND);

  useLayoutEffect(() => {
    if (wanted.current < 0) return;
    const target = scroll.current?.querySelector<HTMLElement>(`[data-row="${wanted.current}"] .row-open`);
    if (target) {
      target.focus({ preventScroll: true });
      wanted.current = -1;
    }
  });
  useEffect(() => {
    const most = Math.max(0, count * rowHeight - size.height);
    if (scroll.current && top > most + rowHeight * AROUND) setTop(scroll.current.scrollTop);
  }, [count, rowHeight, size.height, top, scroll]);

  const goTo = (index: number): void => {
    const element = scroll.current;
    if (!element) return;
    const at = Math.min(count - 1, Math.max(0, index));
    wanted.current = at;
    const head = 34;
    if (at * rowHeight < element.scrollTop) element.scrollTop = at * rowHeight;
    else if ((at + 1) * rowHeight + head > element.scrollTop + element.clientHeight)
      element.scrollTop = (at + 1) * rowHeight + head - element.clientHeight;
    setTop(element.scrollTop);
    element.querySelector<HTMLElement>(`[data-row="${at}"] .row-open`)?.focus({ preventScroll: true });
  };
  const onKeyDown = (event: TargetedKeyboardEvent<HTMLDivElement>): void => {
    const at = Number((event.target as HTMLElement).closest("[data-row]")?.getAttribute("data-row") ?? "-1");
    const page = Math.max(1, Math.floor(size.height / rowHeight) - 2);
    const steps: Partial<Record<string, number>> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
    };
    const next = event.key === "Home" ? 0 : event.key === "End" ? count - 1 : steps[event.key];
    if (next === undefined || (at < 0 && event.target !== scroll.current)) return;
    if (!open) return;
    event.preventDefault();
    goTo(next);
  };

  const shown = [];
  for (let index = first; index < last; index++) shown.push(index);
  return (
    <div
      class="scroll"
      ref={scroll}
      role="region"
      aria-label={label}
      tabIndex={0}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={onKeyDown}
    >
      <table class="table" aria-rowcount={count + 1} aria-label={label}>
        <colgroup>
          {columns.map((each) => (
            <col key={each.id} style={widthOf(each, size.width)} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((each) => (
              <Head key={each.id} column={each} {...props} />
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <Space rows={first} height={rowHeight} columns={columns.length} />}
          {shown.map((index) => {
            const each = row(index);
            const key = rowKey(each);
            const chosen = key === opened;
            return (
              <tr
                key={key}
                data-row={index}
                aria-rowindex={index + 2}
                class={`${props.rowClass?.(each) ?? ""}${chosen ? " chosen" : ""}${open ? " opens" : ""}`}
                style={{ height: `${rowHeight}px` }}
                onClick={open && (() => open(each))}
              >
                {columns.map((column, place) => (
                  <Cell
                    key={column.id}
                    column={column}
                    row={each}
                    first={place === 0}
                    open={open}
                    chosen={chosen}
                  />
                ))}
              </tr>
            );
          })}
          {last < count && <Space rows={count - last} height={rowHeight} columns={columns.length} />}
        </tbody>
      </table>
    </div>
  );
}

function widthOf<T>(column: Column<T>, room: number): { width?: string } {
  const width = room < 480 ? (column.narrow ?? column.width) : column.width;
  return width ? { width: `${width}px` } : {};
}

function Head<T>({ column, sort, sorts, onSort }: Props<T> & { column: Column<T> }): JSX.Element {
  const by = sorts?.[column.id];
  const side = column.numeric ? "number" : "";
  if (by === undefined || !onSort)
    return (
      <th scope="col" class={side}>
        {column.title}
      </th>
    );
  const sorted = sort === by;
  return (
    <th scope="col" class={side} aria-sort={sorted ? "other" : "none"}>
      <button type="button" class={`head-sort${sorted ? " sorted" : ""}`} onClick={() => onSort(by)}>
        {column.title}
      </button>
    </th>
  );
}

function Cell<T>(props: {
  column: Column<T>;
  row: T;
  first: boolean;
  open: ((row: T) => void) | undefined;
  chosen: boolean;
}): JSX.Element {
  const { column, row, first, open, chosen } = props;
  const inner = column.cell(row);
  const side = column.numeric ? "number" : "";
  if (!first) return <td class={side}>{inner}</td>;
  if (!open)
    return (
      <th scope="row" class={side}>
        {inner}
      </th>
    );
  return (
    <th scope="row" class={side}>
      <button
        type="button"
        class="row-open"
        aria-expanded={chosen}
        onClick={(event) => {
          event.stopPropagation();
          open(row);
        }}
      >
        {inner}
      </button>
    </th>
  );
}

function Space({ rows, height, columns }: { rows: number; height: number; columns: number }): JSX.Element {
  return (
    <tr aria-hidden="true" class="space" style={{ height: `${rows * height}px` }}>
      <td colSpan={columns} />
    </tr>
  );
}
