// What package probe (../probe) is in Go: the same jobs, modes and reports.
import { readFileSync, writeSync } from 'node:fs'

export const config = JSON.parse(process.env.BENCH)
const [host, port] = config.addr.split(':')
export const connection = { host, port: Number(port) }

const line = (key, value) => writeSync(3, `${key} ${value}\n`)
const unixNs = () => Math.round((performance.timeOrigin + performance.now()) * 1e6)
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

function peakRSS() {
  const found = /VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))
  return found ? Number(found[1]) : 0
}

function spent(before) {
  const used = process.cpuUsage(before)
  line('cpu', used.user + used.system)
  line('rss', peakRSS())
}

let ran = 0
let sum = 0
let before

const counted = (perform) => async (filler, number) => {
  if (!before) {
    line('first', unixNs())
    before = process.cpuUsage()
  }
  try {
    await perform(number)
  } finally {
    sum += number
    if (++ran === config.jobs) {
      const ended = unixNs()
      spent(before)
      line('sum', sum)
      line('ran', ran)
      line('last', ended)
    } else if (ran > config.jobs) {
      line('extra', ran)
    }
  }
}

// answering returns the time at its end, as text like the Go contenders.
const answering = (perform) => {
  const run = counted(perform)
  return async (filler, number) => {
    await run(filler, number)
    return String(unixNs())
  }
}

let called = 0
const seen = new Set()

// What package probe's flow.go counts: the members of workflows, and what their callbacks get.
function member(number) {
  if (number < 0) {
    if (config.shape === 'plain') line('warm', unixNs())
    return
  }
  sum += number
  if (++ran === config.members && config.shape === 'plain') ended()
}

function ended() {
  const at = unixNs()
  line('sum', sum)
  line('ran', ran)
  line('called', at)
}

function callback(number, ...results) {
  if (number < 0) return line('warm', unixNs())
  const { from, members } = flow(number)
  const [n, want] = config.shape === 'chain' ? [1, from + members - 1] : [members, members * from + (members * (members - 1)) / 2]
  if (results.length !== n || results.reduce((a, b) => a + b, 0) !== want) return line('wrong', number)
  if (seen.has(number)) return line('extra', number)
  seen.add(number)
  if (++called === config.flows) ended()
}

export const handlers = {
  Member: (number) => (member(number), number),
  Step: (number) => (member(number), number + 1),
  Callback: callback,
  Noop: counted(() => {}),
  Tenth: counted((number) => {
    if (number % 10 === 0) throw new Error('every tenth job fails')
  }),
  Sleep1: counted(() => sleep(1)),
  Sleep100: counted(() => sleep(100)),
  Answer: answering(() => {}),
  Answer10: answering(() => sleep(10)),
  Stamp: async (sent) => line('latency', unixNs() - Number(sent)),
  Hold: (id) => {
    line('hold', id)
    return new Promise(() => {})
  },
}

// job's at is when it is due, in milliseconds, where it is delayed.
function job(i) {
  const rest = config.size - '{"class":"","args":["",]}'.length - config.class.length - String(i).length
  const args = config.class === 'Far' ? [String(i).padStart(16, '0')] : ['a'.repeat(Math.max(rest, 0)), i]
  const at = config.delayed ? (config.at + i * config.step) / 1e6 : 0
  const id = config.named ? named(i) : undefined
  return { queue: config.queues[i % config.queues.length], class: config.class, args, at, id }
}

const named = (i) => `job-${i}`

// flow is number i of the workflows that the runner asks for; a small one warms up.
function flow(i) {
  const { shape, members } = config
  if (!config.warm) return { shape, number: i, from: i * members, members }
  const few = config.flows > 1 ? 200 : Math.min(members, 200)
  return { shape, number: -1, from: -few, members: few }
}

async function starts({ push, pushAll, start }) {
  const count = config.warm ? 1 : config.flows
  line('began', unixNs())
  const used = process.cpuUsage()
  const at = performance.now()
  if (config.shape !== 'plain') {
    for (let i = 0; i < count; i += 100) {
      await start(Array.from({ length: Math.min(100, count - i) }, (_, k) => flow(i + k)))
    }
  } else if (config.warm) {
    await push({ class: 'Member', args: [-1] })
  } else {
    for (let i = 0; i < config.members; i += 1000) {
      const some = Array.from({ length: Math.min(1000, config.members - i) }, (_, k) => i + k)
      await pushAll(some.map((k) => ({ class: 'Member', args: [k], id: named(k) })))
    }
  }
  const took = performance.now() - at
  spent(used)
  line('took', Math.round(took * 1e6))
  line('started', count)
}

async function pushEach(push) {
  let next = 0
  const producer = async () => {
    for (let i = next++; i < config.jobs; i = next++) await push(job(i))
  }
  await Promise.all(Array.from({ length: config.producers }, producer))
}

async function pushBulk(pushAll) {
  for (let i = 0; i < config.jobs; ) {
    const jobs = []
    for (; jobs.length < config.bulk && i < config.jobs; i++) jobs.push(job(i))
    await pushAll(jobs)
  }
}

async function stamps(push) {
  for (let i = 0; i < config.jobs; i++) {
    await sleep((config.gap_min + Math.random() * (config.gap_max - config.gap_min)) / 1e6)
    let from = unixNs()
    let at = 0
    if (config.delay_max > 0) {
      at = Math.trunc((from + config.delay_min + Math.random() * (config.delay_max - config.delay_min)) / 1e6)
      if (config.whole) at = Math.trunc(at / 1000 + 1) * 1000
      from = at * 1e6
    }
    await push({ queue: config.queues[0], class: 'Stamp', args: [String(from), 0], at })
  }
}

const warmUp = 20 // calls before those that are timed

async function calls({ push, wait }) {
  if (config.producers > 1) return callsAtOnce({ push, wait })
  const took = []
  const begin = performance.now()
  for (let i = 0; i < warmUp + config.jobs; i++) {
    await sleep((config.gap_min + Math.random() * (config.gap_max - config.gap_min)) / 1e6)
    const start = performance.now()
    await wait(await push(job(i)))
    if (i >= warmUp) took.push((performance.now() - start) * 1e6)
  }
  awaited(took, begin)
}

async function callsAtOnce({ push, wait }) {
  const took = []
  const call = async (i) => wait(await push(job(i)))
  await Promise.all(Array.from({ length: config.producers }, (_, i) => call(i)))
  let next = 0
  const begin = performance.now()
  const caller = async () => {
    for (let i = next++; i < config.jobs; i = next++) {
      const start = performance.now()
      await call(config.producers + i)
      took.push((performance.now() - start) * 1e6)
    }
  }
  await Promise.all(Array.from({ length: config.producers }, caller))
  awaited(took, begin)
}

// awaits times each wait from the end of its job's handler.
async function awaits({ find, wait }) {
  const begin = performance.now()
  const jobs = await Promise.all(Array.from({ length: config.jobs }, (_, i) => find(named(i))))
  const waits = jobs.map(async (job) => {
    const answer = await wait(job)
    return unixNs() - Number(answer)
  })
  line('waiting', waits.length)
  awaited(await Promise.all(waits), begin)
}

// awaited reports only when all is over, so that reports delay no wait.
function awaited(took, begin) {
  const all = performance.now() - begin
  for (const ns of took) line('latency', Math.round(ns))
  line('rss', peakRSS())
  line('took', Math.round(all * 1e6))
  line('awaited', took.length)
}

// main is a contender's main function: work starts its workers. produce returns its push
// and, where it has them, its pushAll, its find of a job by its id, its wait for a job's
// result, and its start of workflows.
export async function main(work, produce) {
  if (config.mode === 'work') return work()
  const producer = await produce()
  const { push, pushAll } = producer
  if (config.mode === 'stamp') {
    await stamps(push)
  } else if (config.mode === 'start') {
    await starts(producer)
  } else if (config.mode === 'call') {
    await calls(producer)
  } else if (config.mode === 'await') {
    await awaits(producer)
  } else {
    const start = process.cpuUsage()
    const at = performance.now()
    await (config.bulk > 0 ? pushBulk(pushAll) : pushEach(push))
    const took = performance.now() - at
    spent(start)
    line('pushed', Math.round(took * 1e6))
  }
  process.exit(0)
}
