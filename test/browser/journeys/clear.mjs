// A queue is cleared, and gets its jobs back.
import { person, said, agree, eventually, waiting } from "../lib.mjs";

export default async function () {
  const me = await person(), { page } = me;
  await me.go("/queues/archive");
  await agree(page, page.getByRole("button", { name: /^Clear…/ }), /^Clear 90 jobs/);
  await said(page).filter({ hasText: /90/ }).waitFor();
  await eventually("the queue is empty", async () => await waiting("archive") === 0);
  await page.getByRole("button", { name: "Undo" }).first().click();
  await eventually("the jobs are back", async () => await waiting("archive") === 90);
  await me.end();
}
