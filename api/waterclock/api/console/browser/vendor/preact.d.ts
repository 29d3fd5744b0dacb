// What is used of preact.js, for the type checker.
export function html(strings: TemplateStringsArray, ...values: any[]): any;
export function h(type: any, props: any, ...children: any[]): any;
export function render(tree: any, into: Element): void;
export const Fragment: any;
export function createContext<T>(value: T): any;
export function useState<T>(initial: T | (() => T)): [T, (next: T | ((before: T) => T)) => void];
export function useEffect(effect: () => void | (() => void), depends?: any[]): void;
export function useLayoutEffect(effect: () => void | (() => void), depends?: any[]): void;
export function useMemo<T>(make: () => T, depends: any[]): T;
export function useRef<T>(initial: T): { current: T };
export function useCallback<T>(callback: T, depends: any[]): T;
export function useContext(context: any): any;
export function useErrorBoundary(callback?: (error: any) => void): [any, () => void];
export interface Signal<T> {
  value: T;
  peek(): T;
  subscribe(listener: (value: T) => void): () => void;
}
export function signal<T>(value: T): Signal<T>;
export function computed<T>(make: () => T): Signal<T>;
export function effect(run: () => void | (() => void)): () => void;
export function batch<T>(run: () => T): T;
export function untracked<T>(run: () => T): T;
export function useSignal<T>(value: T): Signal<T>;
export function useComputed<T>(make: () => T): Signal<T>;
export function useSignalEffect(run: () => void | (() => void)): void;
