/** Rows that keep their place: an update moves nothing under somebody's pointer. */

export interface Placed<T> {
  row: T;
  /** It was in an earlier answer and is in none any more. */
  gone: boolean;
}

export interface Places<T> {
  rows: Placed<T>[];
  /** How many came that were not there when the rows were put in order, and how many went. */
  came: number;
  went: number;
  /** Whether the newest answer has those that are left in another order. */
  moved: boolean;
}

/** The first answer, in its own order. */
export function arranged<T>(rows: readonly T[]): Places<T> {
  return { rows: rows.map((row) => ({ row, gone: false })), came: 0, went: 0, moved: false };
}

/** A later answer, with known rows where they were; new ones stand at the end. */
export function kept<T>(before: Places<T>, rows: readonly T[], key: (row: T) => string): Places<T> {
  const fresh = new Map(rows.map((row) => [key(row), row]));
  const known = new Set(before.rows.map((each) => key(each.row)));
  const stay = before.rows.map(({ row }) => {
    const now = fresh.get(key(row));
    return now === undefined ? { row, gone: true } : { row: now, gone: false };
  });
  const added = rows.filter((row) => !known.has(key(row))).map((row) => ({ row, gone: false }));
  const first = before.rows.length - before.came;
  const all = [...stay, ...added];
  const shown = all.filter((each) => !each.gone).map((each) => key(each.row));
  return {
    rows: all,
    came: all.slice(first).filter((each) => !each.gone).length,
    went: stay.filter((each) => each.gone).length,
    moved: shown.some((each, index) => each !== key(rows[index])),
  };
}
