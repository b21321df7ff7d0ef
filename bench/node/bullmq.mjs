// BullMQ with the benchmark's handlers. A queue has one Worker with all the
// concurrency, and finished jobs are not kept, as its documentation advises. Its variant
// "results" keeps them, as it does by default.
import { FlowProducer, Queue, QueueEvents, Worker } from 'bullmq'
import { config, connection, handlers, main } from './probe.mjs'

const kept = config.variant === 'results'

// A job of a workflow takes what the jobs before it, its children, returned.
const perform = async (job) => {
  const { name, data } = job
  if (name === 'Callback' || (name === 'Step' && data.length === 0)) data.push(...Object.values(await job.getChildrenValues()))
  return handlers[name](...data)
}

const queueName = config.queues[0]
const once = { removeOnComplete: true }

// tree is a workflow as BullMQ has it: what comes last is the root, above what comes before it.
function tree({ shape, number, from, members }) {
  let children
  if (shape === 'chain') {
    let step = { name: 'Step', queueName, data: [from], opts: once }
    for (let i = 2; i < members; i++) step = { name: 'Step', queueName, data: [], opts: once, children: [step] }
    children = [step]
  } else {
    children = Array.from({ length: members }, (_, i) => ({ name: 'Member', queueName, data: [from + i], opts: once }))
  }
  return { name: 'Callback', queueName, data: [number], opts: once, children }
}

main(
  () => {
    const worker = new Worker(config.queues[0], perform, {
      connection,
      concurrency: config.workers,
      ...(!kept && { removeOnComplete: { count: 0 } }),
    })
    worker.on('error', (error) => console.error(error))
  },
  async () => {
    const queue = new Queue(config.queues[0], { connection })
    await queue.waitUntilReady()
    const opts = (job) => {
      const timestamp = Date.now()
      const delay = job.at && { timestamp, delay: Math.max(job.at - timestamp, 0) }
      return { removeOnComplete: !kept, ...(job.id && { jobId: job.id }), ...delay }
    }
    const producer = {
      push: (job) => queue.add(job.class, job.args, opts(job)),
      pushAll: (jobs) => queue.addBulk(jobs.map((job) => ({ name: job.class, data: job.args, opts: opts(job) }))),
    }
    if (config.mode === 'start') {
      const flows = new FlowProducer({ connection })
      await flows.waitUntilReady()
      producer.start = (list) => flows.addBulk(list.map(tree))
    }
    if (config.mode === 'call' || config.mode === 'await') {
      queue.setMaxListeners(0) // each wait listens to the queue's end
      const events = new QueueEvents(config.queues[0], { connection })
      await events.waitUntilReady()
      producer.find = (id) => queue.getJob(id)
      producer.wait = (job) => job.waitUntilFinished(events)
    }
    return producer
  },
)
