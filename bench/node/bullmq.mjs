// BullMQ with the benchmark's handlers. A queue has one Worker with all the
// concurrency, and finished jobs are not kept, as its documentation advises. Its variant
// "results" keeps them, as it does by default.
import { Queue, QueueEvents, Worker } from 'bullmq'
import { config, connection, handlers, main } from './probe.mjs'

const kept = config.variant === 'results'

main(
  () => {
    const worker = new Worker(config.queues[0], (job) => handlers[job.name](...job.data), {
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
