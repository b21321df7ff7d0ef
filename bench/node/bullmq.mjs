// BullMQ with the benchmark's handlers. A queue has one Worker with all the
// concurrency, and finished jobs are not kept, as its documentation advises.
import { Queue, Worker } from 'bullmq'
import { config, connection, handlers, main } from './probe.mjs'

main(
  () => {
    const worker = new Worker(config.queues[0], (job) => handlers[job.name](...job.data), {
      connection,
      concurrency: config.workers,
      removeOnComplete: { count: 0 },
    })
    worker.on('error', (error) => console.error(error))
  },
  async () => {
    const queue = new Queue(config.queues[0], { connection })
    await queue.waitUntilReady()
    const opts = (job) => {
      const timestamp = Date.now()
      return { removeOnComplete: true, ...(job.at && { timestamp, delay: Math.max(job.at - timestamp, 0) }) }
    }
    return {
      push: (job) => queue.add(job.class, job.args, opts(job)),
      pushAll: (jobs) => queue.addBulk(jobs.map((job) => ({ name: job.class, data: job.args, opts: opts(job) }))),
    }
  },
)
