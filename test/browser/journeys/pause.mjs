// A queue is paused and resumed.
import { person, pause, eventually, waiting, control } from "../lib.mjs";

export default async function () {
  const me = await person(), { page } = me;
  await pause(page, "mail");
  await me.go("/queues");
  await control("/push?queue=mail&class=SendMail&n=3");
  const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: /^mail/ }) });
  await row.getByText(/paused/).first().waitFor();
  await eventually("the jobs wait", async () => {
    const n = await waiting("mail");
    if (n < 3) await control("/push?queue=mail&class=SendMail&n=1"); // a process that has not heard of the pause yet runs those before
    return n >= 3;
  });
  await page.getByRole("button", { name: "Resume mail" }).click();
  await eventually("the jobs run", async () => await waiting("mail") === 0);
  await me.end();
}
