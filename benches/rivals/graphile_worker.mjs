// Graphile Worker, in the bench's terms: the verbs of serving.py, which says what they mean.
//
// The local queue holds 500 jobs, and completions are recorded in batches (delay 0: those that have come together), as
// its own performance test has it. The setting is `concurrentJobs`; 10, 24 and 100 are tried. For latency there is no
// local queue: with one, a job waits for the next fetch. Jobs that are done are deleted.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Logger, makeWorkerUtils, run } from "graphile-worker";

const PAYLOAD = { to: "ada@example.org", n: 1 };
const WARM_UP = 3;
const [url, verb, given] = process.argv.slice(2);
const options = JSON.parse(given);
const logger = new Logger(() => (level, message) => level === "error" && console.error(message));

const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const now = () => process.hrtime.bigint();
const seconds = (start) => Number(now() - start) / 1e9;
const milliseconds = (start, end) => Number(end - start) / 1e6;

const utils = await makeWorkerUtils({ connectionString: url, logger, maxPoolSize: 20 });

const add = async (jobs, bulk) => {
    for (let start = 0; start < jobs; start += bulk) {
        const number = Math.min(bulk, jobs - start);
        await utils.addJobs(Array.from({ length: number }, () => ({ identifier: "bench", payload: PAYLOAD })));
    }
};

const startWorker = (execute, local) =>
    run({
        connectionString: url,
        noHandleSignals: true,
        parsedCronItems: [],
        taskList: { bench: execute },
        preset: {
            worker: {
                concurrentJobs: options.setting ?? 1,
                maxPoolSize: 20,
                logger,
                ...(local ? { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } : {}),
            },
        },
    });

const verbs = {
    async prepare() {
        await utils.migrate();
        say({});
    },

    async preload() {
        const start = now();
        await add(options.jobs, options.bulk ?? 1000);
        say({ seconds: seconds(start) });
    },

    async enqueue() {
        const atOnce = options.at_once ?? 1;
        const oneByOne = async (number) => {
            for (let done = 0; done < number; done += 1) await utils.addJob("bench", PAYLOAD);
        };
        const together = (number) => Promise.all(Array.from({ length: atOnce }, () => oneByOne(number)));
        await together(1);
        const start = now();
        if (options.bulk) await add(options.jobs, options.bulk);
        else await together(Math.floor(options.jobs / atOnce));
        say({ seconds: seconds(start) });
    },

    async drain() {
        let done = 0;
        let told = 0;
        const nothing = async () => {
            done += 1;
        };
        const nap = async () => {
            await sleep(1);
            done += 1;
        };
        const lines = createInterface({ input: process.stdin });
        say({ ready: 1 });
        lines.on("line", async (line) => {
            if (line === "go") {
                await startWorker(options.job === "sleep" ? nap : nothing, true);
                setInterval(() => {
                    if (done !== told) say({ done: (told = done) });
                }, 10);
            } else if (line === "pending") {
                const count = "SELECT count(*)::int AS number FROM graphile_worker._private_jobs";
                const { rows } = await utils.withPgClient((client) => client.query(count));
                say({ pending: rows[0].number });
            }
        });
        await new Promise((resolve) => lines.on("close", resolve));
    },

    async latency() {
        const waiting = [];
        const moments = [];
        const told = (moment) => (waiting.length ? waiting.shift()(moment) : moments.push(moment));
        const started = () =>
            moments.length ? moments.shift() : new Promise((resolve) => waiting.push(resolve));
        if (options.other) {
            const child = spawn(process.execPath, [process.argv[1], url, "work", given], {
                stdio: ["ignore", "pipe", "inherit"],
            });
            createInterface({ input: child.stdout }).on("line", (line) => told(BigInt(line)));
            process.on("exit", () => child.kill("SIGKILL"));
        } else {
            await startWorker(async () => told(now()), false);
        }
        const answer = { since_call: [], since_return: [] };
        for (let number = -WARM_UP; number < options.samples; number += 1) {
            const begun = now();
            await utils.addJob("bench", PAYLOAD);
            const returned = now();
            const moment = await started();
            if (number >= 0) {
                answer.since_call.push(milliseconds(begun, moment));
                answer.since_return.push(milliseconds(returned, moment));
            }
            await sleep(options.pause * 1000 * (0.5 + Math.random()));
        }
        say(answer);
    },

    async work() {
        await startWorker(async () => process.stdout.write(`${now()}\n`), false);
        await new Promise(() => {});
    },
};

await verbs[verb]();
process.exit(0);
