/** Questions to the server that the page came from, and to nobody else. */

const TOKEN = "kai-token";

export type ProblemKind = "token" | "rights" | "missing" | "busy" | "away" | "refused";

/** Why there is no answer, for people. */
export class Problem extends Error {
  constructor(
    readonly kind: ProblemKind,
    message: string,
    /** Seconds after which one may ask again; 0 where nobody says so. */
    readonly again = 0,
  ) {
    super(message);
  }

  /** Whether it may be over when one asks again. */
  get passes(): boolean {
    return this.kind === "busy" || this.kind === "away";
  }
}

export function token(): string {
  return sessionStorage.getItem(TOKEN) ?? "";
}

export function keepToken(value: string): void {
  if (value) sessionStorage.setItem(TOKEN, value);
  else sessionStorage.removeItem(TOKEN);
}

/** The answer to a question below api/v1. */
export async function ask<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await send(path, { signal: signal ?? null });
  return (await response.json()) as T;
}

export async function post<T>(path: string, body: string, signal?: AbortSignal): Promise<T> {
  const headers = { "Content-Type": "application/yaml" };
  const response = await send(path, { method: "POST", body, headers, signal: signal ?? null });
  return (await response.json()) as T;
}

/** The bytes of an answer that goes on. */
export async function listen(path: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>> {
  const response = await send(path, { signal, headers: { Accept: "text/event-stream" } });
  if (!response.body) throw new Problem("away", "the server's answer has no end and no beginning");
  return response.body;
}

async function send(
  path: string,
  init: Omit<RequestInit, "headers"> & { headers?: Record<string, string> },
): Promise<Response> {
  const known = token();
  const headers = { ...init.headers, ...(known ? { Authorization: `Bearer ${known}` } : {}) };
  let response: Response;
  try {
    response = await fetch(new URL(`api/v1/${path}`, document.baseURI), {
      ...init,
      headers,
      cache: "no-store",
      redirect: "error",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem("away", "the server does not answer");
  }
  if (!response.ok) throw await problem(response);
  return response;
}

const KINDS: Partial<Record<number, ProblemKind>> = {
  401: "token",
  403: "rights",
  404: "missing",
  503: "busy",
};

async function problem(response: Response): Promise<Problem> {
  let message = `the server says ${response.status}`;
  try {
    const told = (await response.json()) as { error?: { message?: unknown } };
    if (typeof told.error?.message === "string") message = told.error.message;
  } catch {
    // it says nothing more
  }
  const again = Number(response.headers.get("Retry-After") ?? "0");
  const kind = KINDS[response.status] ?? (response.status >= 500 ? "away" : "refused");
  return new Problem(kind, message, Number.isFinite(again) ? again : 0);
}
