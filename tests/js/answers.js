// What the suites ask the model that ships, and what it answers at temperature 0.
export const question = 'What is the capital of Norway?';
export const answer = 'The capital of Norway is Oslo.';
export const thought = 'The user asks for the capital of Norway. It is Oslo.';
export const story = 'Tell me a story about a wolf.';

/// Functions: the name, the description, the JSON schema of the arguments.
const schema = (properties) => ({ type: 'object', properties, required: Object.keys(properties) });
export const getWeather = {
  name: 'get_weather',
  description: 'Weather in a city',
  schema: schema({ city: { type: 'string' } }),
};
export const add = {
  name: 'add',
  description: 'Sum of two numbers',
  schema: schema({ a: { type: 'integer' }, b: { type: 'integer' } }),
};
export const sum = 'Add 2 and 3.';
export const weather = 'What is the weather in Oslo?';
export const weatherNow = '12 degrees, rainy';
export const weatherAnswer = 'It is 12 degrees, rainy in Oslo.';
