import { randomBytes } from "node:crypto";
import { open, readFile, rename, rm } from "node:fs/promises";

/** What is kept of an intent. */
export interface Entry {
  key: string;
  /** When the intent was last sent, in seconds since 1970; 0 = never. */
  sent: number;
  /** Whether its answer came. */
  done: boolean;
}

/** Keeps entries by intent. What put promises must outlive a crash. */
export interface Store {
  get(intent: string): Promise<Entry | undefined>;
  put(intent: string, entry: Entry): Promise<void>;
  delete(intent: string): Promise<void>;
}

/** Survives no restart. */
export class MemoryStore implements Store {
  readonly #entries = new Map<string, Entry>();
  async get(intent: string) {
    return this.#entries.get(intent);
  }
  async put(intent: string, entry: Entry) {
    this.#entries.set(intent, entry);
  }
  async delete(intent: string) {
    this.#entries.delete(intent);
  }
}

/** For how long a FileStore keeps entries whose answer came, in seconds. */
const keptDone = 7 * 24 * 3600;

/**
 * Keeps entries in one JSON file, which the Go and the Python helper read too. One
 * process at a time may use a file. Entries whose answer came are dropped a week after
 * they were sent. The folder must be there.
 */
export class FileStore implements Store {
  readonly #path: string;
  #last: Promise<unknown> = Promise.resolve();

  constructor(path: string) {
    this.#path = path;
  }

  async get(intent: string) {
    return this.#inTurn(async () => (await this.#read()).get(intent));
  }

  async put(intent: string, entry: Entry) {
    await this.#change((intents) => intents.set(intent, entry));
  }

  async delete(intent: string) {
    await this.#change((intents) => intents.delete(intent));
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => {}); // whoever waits for done is told
    return done;
  }

  #change(edit: (intents: Map<string, Entry>) => void): Promise<void> {
    return this.#inTurn(async () => {
      const intents = await this.#read();
      edit(intents);
      const oldest = Date.now() / 1000 - keptDone;
      const kept = [...intents].filter(([, e]) => !e.done || e.sent >= oldest);
      await this.#replace(JSON.stringify({ version: 1, intents: Object.fromEntries(kept) }));
    });
  }

  async #read(): Promise<Map<string, Entry>> {
    let text: string;
    try {
      text = await readFile(this.#path, "utf8");
    } catch (fault) {
      if ((fault as { code?: string }).code === "ENOENT") return new Map();
      throw fault;
    }
    // Never a new key where an old one can not be read: that would be a second run.
    const file = JSON.parse(text) as { version?: number; intents?: Record<string, Entry> };
    if (file.version !== 1 || typeof file.intents !== "object" || file.intents === null) {
      throw new Error(`${this.#path}: want version 1 of the file of keys`);
    }
    return new Map(Object.entries(file.intents));
  }

  /** After a crash there is the old file or the new one. */
  async #replace(text: string) {
    const temporary = `${this.#path}.${randomBytes(6).toString("hex")}`;
    try {
      const file = await open(temporary, "wx", 0o600);
      try {
        await file.writeFile(text);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, this.#path);
    } catch (fault) {
      await rm(temporary, { force: true });
      throw fault;
    }
  }
}
